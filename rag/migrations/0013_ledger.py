from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    """The ledger of usage and budgets."""

    dependencies = [("rag", "0012_migrations")]
    operations: list[object] = []
