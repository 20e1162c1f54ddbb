from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    """The audit and synchronised folders."""

    dependencies = [("rag", "0013_ledger")]
    operations: list[object] = []
