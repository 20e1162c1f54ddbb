"""Who wrote a chunk, what found no place in its file's new text, and what was deleted by hand."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import Q

CASCADE = django.db.models.deletion.CASCADE


class Migration(migrations.Migration):
    dependencies = [
        ("rag", "0006_gemini_stores"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        migrations.AlterModelOptions(
            name="chunk",
            options={"ordering": ["file_id", "char_end", "ordinal"], "verbose_name": "chunk", "verbose_name_plural": "chunks"},
        ),
        migrations.AddField(
            model_name="chunk",
            name="origin",
            field=models.CharField(choices=[("parsed", "from the file"), ("edited", "edited"), ("added", "added by hand")], db_default="parsed", default="parsed", editable=False, max_length=10, verbose_name="origin"),
        ),
        migrations.RemoveIndex(model_name="chunk", name="rag_chunk_file"),
        migrations.AddIndex(
            model_name="chunk",
            index=models.Index(fields=["file", "char_end", "ordinal"], name="rag_chunk_place"),
        ),
        migrations.AddIndex(
            model_name="chunk",
            index=models.Index(condition=~Q(origin="parsed") | Q(enabled=False), fields=["file"], name="rag_chunk_touched"),
        ),
        migrations.CreateModel(
            name="ChunkConflict",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("char_start", models.PositiveIntegerField(verbose_name="start")),
                ("file_revision", models.PositiveIntegerField(verbose_name="file revision")),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="created")),
                ("chunk", models.OneToOneField(on_delete=CASCADE, related_name="conflict", to="rag.chunk", verbose_name="chunk")),
                ("file", models.ForeignKey(on_delete=CASCADE, related_name="conflicts", to="rag.file", verbose_name="file")),
            ],
            options={"verbose_name": "chunk conflict", "verbose_name_plural": "chunk conflicts", "ordering": ["-id"]},
        ),
        migrations.CreateModel(
            name="DroppedSpan",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("char_start", models.PositiveIntegerField(verbose_name="start")),
                ("char_end", models.PositiveIntegerField(verbose_name="end")),
                ("dropped_at", models.DateTimeField(auto_now_add=True, verbose_name="deleted")),
                ("dropped_by", models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL, verbose_name="deleted by")),
                ("file", models.ForeignKey(on_delete=CASCADE, related_name="dropped_spans", to="rag.file", verbose_name="file")),
            ],
            options={"verbose_name": "deleted passage", "verbose_name_plural": "deleted passages", "ordering": ["file_id", "char_start"]},
        ),
    ]
