"""Memories that name or hold a password, a key or a number of a card or identity paper are deleted."""

from __future__ import annotations

from typing import Any

from django.db import migrations

from rag.stages.text.secrets import mentions_secret


def delete_secrets(apps: Any, schema_editor: Any) -> None:
    """Look through all memories; what new ones are refused for goes from the old ones too."""
    rows = apps.get_model("agents", "Memory").objects.using(schema_editor.connection.alias)
    found = [
        row.pk
        for row in rows.only("subject", "text", "answer").iterator(chunk_size=1000)
        if any(map(mentions_secret, (row.subject, row.text, row.answer)))
    ]
    rows.filter(pk__in=found).delete()


class Migration(migrations.Migration):
    dependencies = [("agents", "0006_grounding")]

    operations = [migrations.RunPython(delete_secrets, migrations.RunPython.noop)]
