"""What a run of a flow has found and answers, and what its passages say of each statement."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0007_no_secret_memories'),
    ]

    operations = [
        migrations.AddField(
            model_name='flowrun',
            name='answer',
            field=models.TextField(blank=True, verbose_name='answer'),
        ),
        migrations.AddField(
            model_name='flowrun',
            name='citations',
            field=models.JSONField(blank=True, default=list, verbose_name='citations'),
        ),
        migrations.AddField(
            model_name='flowrun',
            name='grounding',
            field=models.JSONField(blank=True, default=dict, verbose_name='grounding'),
        ),
        migrations.AddField(
            model_name='flowrun',
            name='outcome',
            field=models.CharField(blank=True, max_length=20, verbose_name='outcome'),
        ),
        migrations.AddField(
            model_name='flowrun',
            name='passages',
            field=models.JSONField(blank=True, default=list, verbose_name='passages'),
        ),
    ]
