"""What answers decided, kept as rows; and whose budget a run of a flow is on."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

# Table: kind, column of the number, of the name, of the store, columns that are no change.
AUDITED = {
    "agents_agent": ("agent", "id", "name", "", "updated_at"),
    "agents_agent_stores": ("agent stores", "agent_id", "", "store_id", "id"),
    "agents_agent_reader_groups": ("agent readers", "agent_id", "", "", "id"),
    "agents_agent_editor_groups": ("agent editors", "agent_id", "", "", "id"),
    "agents_flow": ("flow", "id", "name", "", "updated_at"),
    "agents_flow_runner_groups": ("flow runners", "flow_id", "", "", "id"),
    "agents_flow_editor_groups": ("flow editors", "flow_id", "", "", "id"),
    # Digests are no secrets here, and are told by the number anyway.
    "agents_flowversion": ("flow version", "flow_id", "note", "", "yaml,prompts,digest"),
}
TRIGGERS = "\n".join(
    f"CREATE TRIGGER audit_row AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW"
    " EXECUTE FUNCTION audit_row(" + ", ".join(f"'{one}'" for one in arguments) + ");"
    for table, arguments in AUDITED.items()
)
DROP_TRIGGERS = "\n".join(f"DROP TRIGGER audit_row ON {table};" for table in AUDITED)


class Migration(migrations.Migration):
    dependencies = [("agents", "0004_agent_kinds"), ("rag", "0014_audit")]
    operations = [
        migrations.AddField(
            model_name="flowrun",
            name="key_id",
            field=models.BigIntegerField(editable=False, null=True),
        ),
        migrations.CreateModel(
            name="TraceStep",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("seq", models.PositiveIntegerField(verbose_name="number")),
                ("kind", models.CharField(max_length=20, verbose_name="kind")),
                ("name", models.CharField(blank=True, max_length=100, verbose_name="name")),
                ("outcome", models.CharField(blank=True, max_length=20, verbose_name="outcome")),
                ("duration_ms", models.FloatField(null=True, verbose_name="duration in ms")),
                ("data", models.JSONField(default=dict, verbose_name="data")),
                ("at", models.DateTimeField(verbose_name="at")),
                ("message", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="trace", to="agents.message", verbose_name="message")),
            ],
            options={
                "verbose_name": "decision",
                "verbose_name_plural": "decisions",
                "ordering": ["message", "seq"],
                "constraints": [models.UniqueConstraint(fields=("message", "seq"), name="agents_trace_seq")],
            },
        ),
        migrations.RunSQL(TRIGGERS, DROP_TRIGGERS),
    ]
