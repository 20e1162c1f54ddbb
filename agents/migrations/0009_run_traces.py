"""What only whoever looks into a run wants to know: prompts as sent, values of conditions."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0008_run_answers'),
    ]

    operations = [
        migrations.AddField(
            model_name='runevent',
            name='trace',
            field=models.TextField(editable=False, null=True),
        ),
    ]
