from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    """What agents remember."""

    dependencies = [("agents", "0002_agents")]
    operations: list[object] = []
