"""What the sources say of each statement of an answer; one word for what was not found."""

from __future__ import annotations

from django.db import migrations, models

RENAME = "UPDATE agents_message SET outcome = %s WHERE outcome = %s"


class Migration(migrations.Migration):
    dependencies = [("agents", "0005_runs")]

    operations = [
        migrations.AddField(
            model_name="message",
            name="grounding",
            field=models.JSONField(blank=True, default=dict, verbose_name="grounding"),
        ),
        migrations.RunSQL(
            [(RENAME, ["not_found", "unknown"])], [(RENAME, ["unknown", "not_found"])]
        ),
    ]
