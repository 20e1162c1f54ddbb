from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    """Moves of stores to other embedding spaces, and reindex runs."""

    dependencies = [("rag", "0011_questions")]
    operations: list[object] = []
