from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("rag", "0017_desk_indexes")]
    operations = [
        migrations.AddField(
            "store", "ocr",
            models.BooleanField(
                default=False, verbose_name="text recognition (OCR)",
                help_text="Reads the words on scans and images, a few seconds a page. Its package "
                "must be on the workers: rapidocr, in requirements-extras.txt.",
            ),
        ),
        migrations.CreateModel(
            name="ScannedPage",
            fields=[
                ("id", models.BigAutoField(
                    auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                )),
                ("sha256", models.CharField(max_length=64)),
                ("number", models.PositiveIntegerField(verbose_name="page")),
                ("engine", models.CharField(max_length=80, verbose_name="engine")),
                ("confidence", models.FloatField(verbose_name="confidence")),
                ("has_failed", models.BooleanField(default=False)),
                ("words", models.TextField(verbose_name="words")),
                ("file", models.ForeignKey(
                    on_delete=django.db.models.deletion.CASCADE, related_name="scanned_pages",
                    to="rag.file", verbose_name="file",
                )),
            ],
            options={
                "verbose_name": "scanned page", "verbose_name_plural": "scanned pages",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("file", "sha256", "number"), name="rag_scanned_page_once"
                    )
                ],
            },
        ),
    ]
