"""The ledger of usage: what each call of a model cost, for whom, and what keys may spend."""

import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("rag", "0012_migrations"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        migrations.CreateModel(
            name='Budget',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('period', models.CharField(choices=[('day', 'a day'), ('month', 'a month')], default='month', max_length=10, verbose_name='period')),
                ('max_tokens', models.PositiveBigIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1)], verbose_name='max tokens')),
                ('max_cost', models.DecimalField(blank=True, decimal_places=4, max_digits=14, null=True, validators=[django.core.validators.MinValueValidator(0)], verbose_name='max cost')),
                ('currency', models.CharField(blank=True, default='USD', max_length=3, verbose_name='currency')),
                ('period_start', models.DateTimeField(editable=False, null=True, verbose_name='since')),
                ('spent_tokens', models.BigIntegerField(default=0, editable=False, verbose_name='tokens used')),
                ('spent_cost', models.DecimalField(decimal_places=9, default=0, editable=False, max_digits=18, verbose_name='money used')),
            ],
            options={
                'verbose_name': 'budget',
                'verbose_name_plural': 'budgets',
                'ordering': ['key', 'period'],
            },
        ),
        migrations.CreateModel(
            name='BudgetHold',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tokens', models.PositiveBigIntegerField()),
                ('cost', models.DecimalField(decimal_places=9, max_digits=18, null=True)),
                ('currency', models.CharField(blank=True, default='', max_length=3)),
                ('expires_at', models.DateTimeField()),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='agent',
            field=models.CharField(blank=True, default='', max_length=100, verbose_name='agent or flow'),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='cost',
            field=models.DecimalField(decimal_places=9, max_digits=18, null=True, verbose_name='cost'),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='currency',
            field=models.CharField(blank=True, default='', max_length=3, verbose_name='currency'),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='duration_ms',
            field=models.FloatField(null=True, verbose_name='duration in ms'),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='is_estimated',
            field=models.BooleanField(default=False, help_text='The service told no count; we counted.', verbose_name='estimated'),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='key',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='rag.apikey', verbose_name='key'),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='outcome',
            field=models.CharField(choices=[('ok', 'done'), ('stopped', 'stopped'), ('failed', 'failed')], db_default='ok', default='ok', max_length=10, verbose_name='outcome'),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='prompt_sha256',
            field=models.CharField(blank=True, default='', editable=False, max_length=64),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='run',
            field=models.CharField(blank=True, default='', help_text="The key of the answer or of the flow's run that the call was made for.", max_length=40, verbose_name='run'),
        ),
        migrations.AlterField(
            model_name='usagerecord',
            name='kind',
            field=models.CharField(choices=[('fileSearch', 'question to a store'), ('multimodal', 'question to files'), ('ask', 'cited answer'), ('chat', 'answer of an agent'), ('flow', 'node of a flow'), ('rerank', 'reranking'), ('analysis', 'analysis of a question'), ('embedding', 'vectors of texts'), ('query', 'vector of a question'), ('tool', 'tool'), ('other', 'other work')], max_length=20, verbose_name='kind'),
        ),
        migrations.AddIndex(
            model_name='usagerecord',
            index=models.Index(condition=models.Q(('key__isnull', False)), fields=['key', 'created_at'], name='rag_usage_key'),
        ),
        migrations.AddIndex(
            model_name='usagerecord',
            index=models.Index(condition=models.Q(('run', ''), _negated=True), fields=['run'], name='rag_usage_run'),
        ),
        migrations.AddField(
            model_name='budget',
            name='key',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='budgets', to='rag.apikey', verbose_name='key'),
        ),
        migrations.AddField(
            model_name='budgethold',
            name='key',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='rag.apikey'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.UniqueConstraint(fields=('key', 'period'), name='rag_budget_once'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.CheckConstraint(condition=models.Q(('max_tokens__isnull', False), ('max_cost__isnull', False), _connector='OR'), name='rag_budget_has_limit'),
        ),
        # Counts of all processes; a crash of the server sets them back to nothing, as it may.
        migrations.RunSQL(
            "CREATE UNLOGGED TABLE rag_metric (name text NOT NULL, labels text NOT NULL,"
            " value double precision NOT NULL, PRIMARY KEY (name, labels)) WITH (fillfactor = 70)",
            "DROP TABLE rag_metric",
        ),
    ]
