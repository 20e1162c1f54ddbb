"""A new agent keeps to its sources; built-in ones that nobody has changed do, too."""

from __future__ import annotations

from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import migrations, models

BEFORE, NOW = 0.7, 0.2


def lower(apps: Any, schema_editor: Any) -> None:
    """Lower the temperature of built-in agents that have the old default."""
    rows = apps.get_model("agents", "Agent").objects.filter(is_builtin=True, temperature=BEFORE)
    rows.update(temperature=NOW)


class Migration(migrations.Migration):
    """The default, and the rows that had it by no choice of anybody."""

    dependencies = [("agents", "0014_inner_nodes")]
    operations = [
        migrations.AlterField(
            "agent",
            "temperature",
            models.FloatField(
                "temperature",
                default=NOW,
                validators=[MinValueValidator(0.0), MaxValueValidator(2.0)],
            ),
        ),
        migrations.RunPython(lower, migrations.RunPython.noop, elidable=True),
    ]
