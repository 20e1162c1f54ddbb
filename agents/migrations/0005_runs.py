from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    """Decisions of runs."""

    dependencies = [("agents", "0004_agent_kinds")]
    operations: list[object] = []
