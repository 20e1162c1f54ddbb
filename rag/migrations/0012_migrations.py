"""Moves of stores to other embedding spaces, and reindex runs."""

from __future__ import annotations

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import Q

CASCADE = django.db.models.deletion.CASCADE
SET_NULL = django.db.models.deletion.SET_NULL
WHAT = [("parse", "text and chunks"), ("chunks", "chunks"), ("embeddings", "vectors"), ("lexical", "words"), ("all", "everything")]
STATES = [("waiting", "waiting"), ("running", "running"), ("ready", "ready to swap"), ("refused", "refused by the quality gate"), ("swapped", "swapped"), ("done", "done"), ("failed", "failed"), ("cancelled", "cancelled")]


class Migration(migrations.Migration):
    dependencies = [
        ("rag", "0011_questions"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        migrations.AddIndex(
            model_name="querylog",
            index=django.contrib.postgres.indexes.GinIndex(fields=["chunk_ids"], name="rag_querylog_chunks"),
        ),
        migrations.CreateModel(
            name="ReindexRun",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("what", models.CharField(choices=WHAT, max_length=10, verbose_name="what")),
                ("state", models.CharField(choices=STATES, default="waiting", max_length=10, verbose_name="state")),
                ("stage", models.CharField(blank=True, max_length=20, verbose_name="stage")),
                ("file_ids", django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), help_text="Empty: all files of the store.", null=True, size=None, verbose_name="files")),
                ("model", models.CharField(blank=True, max_length=200, verbose_name="embedding model")),
                ("options", models.JSONField(default=dict, help_text="Workers, chunks a second, margin, data folder, force.", verbose_name="options")),
                ("position", models.BigIntegerField(default=0, verbose_name="position")),
                ("n_total", models.BigIntegerField(default=0, verbose_name="in all")),
                ("n_done", models.BigIntegerField(default=0, verbose_name="done")),
                ("n_failed", models.BigIntegerField(default=0, verbose_name="failed")),
                ("report", models.JSONField(default=dict, help_text="Recall, figures of both spaces, who decided what.", verbose_name="report")),
                ("error", models.JSONField(null=True, verbose_name="error")),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="created")),
                ("started_at", models.DateTimeField(null=True, verbose_name="begun")),
                ("swapped_at", models.DateTimeField(null=True, verbose_name="swapped")),
                ("ended_at", models.DateTimeField(null=True, verbose_name="ended")),
                ("created_by", models.ForeignKey(blank=True, db_index=False, null=True, on_delete=SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL, verbose_name="created by")),
                ("source", models.ForeignKey(null=True, on_delete=SET_NULL, related_name="+", to="rag.embeddingspace", verbose_name="from space")),
                ("store", models.ForeignKey(on_delete=CASCADE, related_name="reindex_runs", to="rag.store", verbose_name="store")),
                ("target", models.ForeignKey(null=True, on_delete=SET_NULL, related_name="+", to="rag.embeddingspace", verbose_name="to space")),
            ],
            options={
                "verbose_name": "reindex run",
                "verbose_name_plural": "reindex runs",
                "ordering": ["-id"],
                "constraints": [
                    models.UniqueConstraint(condition=Q(state__in=("waiting", "running"), what__in=("embeddings", "lexical")), fields=("store",), name="rag_reindex_one_at_a_time"),
                    models.UniqueConstraint(condition=Q(target__isnull=False) & Q(state__in=("waiting", "running", "ready", "refused", "swapped", "failed")), fields=("store",), name="rag_reindex_one_move"),
                ],
            },
        ),
    ]
