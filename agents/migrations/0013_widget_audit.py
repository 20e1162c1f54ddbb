"""The audit has widgets: each opens an agent to everybody."""

from __future__ import annotations

from django.db import migrations

AUDITED = """
CREATE TRIGGER audit_row AFTER INSERT OR UPDATE OR DELETE ON agents_widget FOR EACH ROW
  EXECUTE FUNCTION audit_row('widget', 'id', 'name', '', '');
"""


class Migration(migrations.Migration):
    dependencies = [("agents", "0012_widgets"), ("rag", "0014_audit")]

    operations = [migrations.RunSQL(AUDITED, "DROP TRIGGER audit_row ON agents_widget;")]
