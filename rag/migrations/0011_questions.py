"""Golden questions, what evaluations measured, and how sure a logged search was of its hits."""

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.text
from django.conf import settings
from django.db import migrations, models

CASCADE, SET_NULL = django.db.models.deletion.CASCADE, django.db.models.deletion.SET_NULL
DO_NOTHING = django.db.models.deletion.DO_NOTHING

# Chunks go by statements of their own, so the database takes their targets along.
CONSTRAINTS = """
ALTER TABLE rag_goldentarget
  ADD CONSTRAINT rag_goldentarget_file_gone FOREIGN KEY (file_id) REFERENCES rag_file (id) ON DELETE CASCADE,
  ADD CONSTRAINT rag_goldentarget_chunk_gone FOREIGN KEY (chunk_id) REFERENCES rag_chunk (id) ON DELETE CASCADE
"""
NO_CONSTRAINTS = """
ALTER TABLE rag_goldentarget
  DROP CONSTRAINT IF EXISTS rag_goldentarget_file_gone,
  DROP CONSTRAINT IF EXISTS rag_goldentarget_chunk_gone
"""


class Migration(migrations.Migration):
    dependencies = [
        ("rag", "0010_chunk_edits"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        migrations.AddField(
            model_name="querylog",
            name="confidence",
            field=models.FloatField(help_text="0 to 1: how sure the search was of its best hit.", null=True, verbose_name="confidence"),
        ),
        migrations.CreateModel(
            name='EvaluationRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('model', models.CharField(max_length=200, verbose_name='embedding model')),
                ('chat_model', models.CharField(blank=True, max_length=200, verbose_name='chat model')),
                ('settings', models.JSONField(default=dict, verbose_name='settings')),
                ('settings_hash', models.CharField(db_index=True, max_length=16, verbose_name="settings' hash")),
                ('label', models.CharField(blank=True, max_length=200, verbose_name='label')),
                ('n_questions', models.PositiveIntegerField(default=0, verbose_name='questions')),
                ('n_lost', models.PositiveIntegerField(default=0, help_text='Expected passages that their files no longer hold; not measured.', verbose_name='unmatched passages')),
                ('metrics', models.JSONField(default=dict, verbose_name='figures')),
                ('took_ms', models.FloatField(default=0.0, verbose_name='time in ms')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='created')),
                ('created_by', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='created by')),
                ('space', models.ForeignKey(null=True, on_delete=SET_NULL, related_name='evaluation_runs', to='rag.embeddingspace', verbose_name='space')),
                ('store', models.ForeignKey(on_delete=CASCADE, related_name='evaluation_runs', to='rag.store', verbose_name='store')),
            ],
            options={'verbose_name': 'evaluation run', 'verbose_name_plural': 'evaluation runs', 'ordering': ['-id']},
        ),
        migrations.CreateModel(
            name='GoldenQuestion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('query', models.TextField(max_length=4000, verbose_name='question')),
                ('origin', models.CharField(choices=[('hand', 'written by hand'), ('playground', 'hit test'), ('corrected', 'corrected answer'), ('disliked', 'disliked answer'), ('csv', 'CSV file'), ('api', 'API')], default='hand', editable=False, max_length=10, verbose_name='origin')),
                ('enabled', models.BooleanField(default=True, help_text='Only enabled questions are measured.', verbose_name='enabled')),
                ('note', models.TextField(blank=True, help_text='Such as the answer that was corrected.', verbose_name='note')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='created')),
                ('updated_at', models.DateTimeField(auto_now=True, verbose_name='updated')),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='created by')),
                ('store', models.ForeignKey(on_delete=CASCADE, related_name='golden_questions', to='rag.store', verbose_name='store')),
            ],
            options={'verbose_name': 'golden question', 'verbose_name_plural': 'golden questions', 'ordering': ['-id']},
        ),
        migrations.CreateModel(
            name='EvaluationResult',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('query', models.TextField(verbose_name='question')),
                ('n_expected', models.PositiveIntegerField(verbose_name='expected')),
                ('chunk_ids', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None, verbose_name='hits')),
                ('ranks', django.contrib.postgres.fields.ArrayField(base_field=models.PositiveIntegerField(), size=None, verbose_name='found at')),
                ('metrics', models.JSONField(default=dict, verbose_name='figures')),
                ('answer', models.JSONField(null=True, verbose_name='answer')),
                ('run', models.ForeignKey(on_delete=CASCADE, related_name='results', to='rag.evaluationrun', verbose_name='run')),
                ('question', models.ForeignKey(null=True, on_delete=SET_NULL, related_name='results', to='rag.goldenquestion', verbose_name='golden question')),
            ],
            options={'verbose_name': 'result of a question', 'verbose_name_plural': 'results of questions', 'ordering': ['run_id', 'id']},
        ),
        migrations.CreateModel(
            name='GoldenTarget',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('grade', models.PositiveSmallIntegerField(default=1, help_text='1 to 3: how much it matters that this one is found, and early.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(3)], verbose_name='grade')),
                ('chunk', models.ForeignKey(blank=True, db_constraint=False, help_text='Empty: any chunk of the file counts.', null=True, on_delete=DO_NOTHING, related_name='golden_targets', to='rag.chunk', verbose_name='chunk')),
                ('file', models.ForeignKey(db_constraint=False, on_delete=DO_NOTHING, related_name='golden_targets', to='rag.file', verbose_name='file')),
                ('question', models.ForeignKey(on_delete=CASCADE, related_name='targets', to='rag.goldenquestion', verbose_name='question')),
            ],
            options={'verbose_name': 'expected passage', 'verbose_name_plural': 'expected passages', 'ordering': ['question_id', '-grade', 'id']},
        ),
        migrations.AddConstraint(
            model_name='goldenquestion',
            constraint=models.UniqueConstraint(models.F('store'), django.db.models.functions.text.MD5('query'), name='rag_golden_once_a_store', violation_error_message='The store has this question already.'),
        ),
        migrations.AddConstraint(
            model_name='evaluationresult',
            constraint=models.UniqueConstraint(fields=('run', 'question'), name='rag_result_once_a_run'),
        ),
        migrations.AddConstraint(
            model_name='goldentarget',
            constraint=models.UniqueConstraint(condition=models.Q(('chunk__isnull', False)), fields=('question', 'chunk'), name='rag_golden_chunk_once'),
        ),
        migrations.AddConstraint(
            model_name='goldentarget',
            constraint=models.UniqueConstraint(condition=models.Q(('chunk__isnull', True)), fields=('question', 'file'), name='rag_golden_file_once'),
        ),
        migrations.AddConstraint(
            model_name='goldentarget',
            constraint=models.CheckConstraint(condition=models.Q(('grade__gte', 1), ('grade__lte', 3)), name='rag_golden_grade_range'),
        ),
        migrations.RunSQL(CONSTRAINTS, NO_CONSTRAINTS),
    ]
