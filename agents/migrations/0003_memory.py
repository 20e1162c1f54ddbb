import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone
import pgvector.django.halfvec
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """What agents remember, and who titled a session."""

    dependencies = [
        ("agents", "0002_agents"),
        ("rag", "0002_index_tables"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='MemoryChoice',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='memory_choice', serialize=False, to=settings.AUTH_USER_MODEL, verbose_name='user')),
                ('is_on', models.BooleanField(default=True, verbose_name='agents may remember')),
            ],
            options={
                'verbose_name': 'choice on memory',
                'verbose_name_plural': 'choices on memory',
            },
        ),
        migrations.AddField(
            model_name='session',
            name='titled_by',
            field=models.CharField(choices=[('rule', 'first question'), ('model', 'chat model'), ('person', 'person')], default='rule', editable=False, max_length=10, verbose_name='titled by'),
        ),
        migrations.CreateModel(
            name='Memory',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.UUIDField(default=uuid.uuid4, editable=False, unique=True, verbose_name='key')),
                ('only_store_ids', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), editable=False, null=True, size=None, verbose_name='limited to stores')),
                ('project', models.CharField(blank=True, help_text='Agents of one project share what they remember of a person.', max_length=200, verbose_name='project')),
                ('kind', models.CharField(choices=[('episodic', 'question and answer'), ('semantic', 'fact')], max_length=10, verbose_name='kind')),
                ('subject', models.CharField(max_length=200, verbose_name='subject')),
                ('text', models.TextField(verbose_name='text')),
                ('answer', models.TextField(blank=True, verbose_name='answer')),
                ('chunk_ids', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), blank=True, default=list, editable=False, size=None, verbose_name='rests on')),
                ('is_by_hand', models.BooleanField(default=False, verbose_name='written by hand')),
                ('embedding', pgvector.django.halfvec.HalfVectorField(editable=False, null=True)),
                ('space', models.CharField(blank=True, editable=False, max_length=460)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='updated')),
                ('message', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='memories', to='agents.message', verbose_name='message')),
                ('session', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='memories', to='agents.session', verbose_name='session')),
                ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='agent_memories', to=settings.AUTH_USER_MODEL, verbose_name='user')),
            ],
            options={
                'verbose_name': 'memory',
                'verbose_name_plural': 'memories',
                'ordering': ['-updated_at', '-id'],
                'indexes': [models.Index(fields=['user', 'project', 'kind'], name='agents_memory_of_user'), models.Index(fields=['updated_at'], name='agents_memory_age')],
                'constraints': [models.UniqueConstraint(fields=('user', 'project', 'kind', 'only_store_ids', 'subject'), name='agents_memory_once', nulls_distinct=False), models.CheckConstraint(condition=models.Q(('embedding', None), models.Q(('space', ''), _negated=True), _connector='OR'), name='agents_memory_space')],
            },
        ),
    ]
