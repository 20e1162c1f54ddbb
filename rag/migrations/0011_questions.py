from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    """Golden questions and evaluation runs."""

    dependencies = [("rag", "0010_chunk_edits")]
    operations: list[object] = []
