from __future__ import annotations

from django.db import migrations

BUILTIN = {
    "display_name": "知识库多步问答",
    "description": "基于工具循环的问答：多次检索、评估结果、逐步查找，适合需要比较或综合多份资料的问题",
    "agent_type": "react",
    "agent_role": "specialist",
    "max_iterations": 8,
    "temperature": 0.7,
    "is_enabled": True,
    "is_builtin": True,
    "is_public": True,
    "config": {"enable_query_rewrite": True, "tools": ["vector_retrieve", "grade"]},
}


def make_builtin(apps, schema_editor):
    """Make the agent that works with tools; one of this name stays as it is."""
    agents = apps.get_model("agents", "Agent").objects.using(schema_editor.connection.alias)
    agents.get_or_create(name="react", defaults=BUILTIN)


class Migration(migrations.Migration):
    """A ReAct agent that every installation has."""

    dependencies = [("agents", "0003_memory")]
    operations = [migrations.RunPython(make_builtin, migrations.RunPython.noop)]
