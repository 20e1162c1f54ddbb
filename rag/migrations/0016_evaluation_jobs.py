from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("rag", "0015_outbox")]
    operations = [
        migrations.AddField(
            "evaluationrun", "state",
            models.CharField(
                choices=[
                    ("waiting", "waiting"), ("running", "running"), ("done", "done"),
                    ("failed", "failed"), ("cancelled", "cancelled"),
                ],
                default="done", max_length=10, verbose_name="state",
            ),
        ),
        migrations.AddField(
            "evaluationrun", "error", models.JSONField(null=True, verbose_name="error")
        ),
        migrations.AddField(
            "evaluationrun", "n_done",
            models.PositiveIntegerField(default=0, verbose_name="questions asked"),
        ),
        migrations.RunSQL(
            "UPDATE rag_evaluationrun SET n_done = n_questions", migrations.RunSQL.noop
        ),
        migrations.AddConstraint(
            "evaluationrun",
            models.UniqueConstraint(
                condition=models.Q(("state__in", ("waiting", "running"))),
                fields=("store", "settings_hash"), name="rag_evaluation_one_at_a_time",
            ),
        ),
        # The desk lists the chunks that were replaced.
        migrations.AddIndex(
            "chunk",
            models.Index(
                condition=models.Q(("is_live", False)), fields=["file", "char_end", "ordinal"],
                name="rag_chunk_replaced",
            ),
        ),
    ]
