from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("rag", "0016_evaluation_jobs")]
    operations = [
        # Lists of chunks go store by store, so that nobody's begins behind all that others have.
        migrations.AddIndex(
            "chunk",
            models.Index(
                fields=["store", "file", "char_end", "ordinal"], name="rag_chunk_of_store"
            ),
        ),
        # Its first column is the store.
        migrations.AlterField(
            "chunk", "store",
            models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.CASCADE,
                related_name="chunks", to="rag.store", verbose_name="store",
            ),
        ),
        migrations.RemoveIndex("chunk", "rag_chunk_replaced"),
        migrations.AddIndex(
            "chunk",
            models.Index(
                condition=models.Q(("is_live", False)),
                fields=["store", "file", "char_end", "ordinal"], name="rag_chunk_replaced",
            ),
        ),
        # Files are counted from the index alone.
        migrations.RemoveIndex("file", "rag_file_status"),
        migrations.AddIndex(
            "file",
            models.Index(
                fields=["store", "status"], include=["n_chunks"], name="rag_file_status"
            ),
        ),
    ]
