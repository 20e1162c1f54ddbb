from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('rag', '0004_store_generation'),
    ]

    operations = [
        migrations.AddField(
            model_name='file',
            name='encoding_override',
            field=models.CharField(blank=True, default='', help_text='The encoding of a text, where it cannot be told from the bytes.', max_length=40, verbose_name='read as'),
        ),
    ]
