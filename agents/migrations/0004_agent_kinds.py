from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    """ReAct and supervisor agents."""

    dependencies = [("agents", "0003_memory")]
    operations: list[object] = []
