"""App configuration of the agents package."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy

from agents.runtime.memories import MemoryPort, register_memory
from rag.core.derived_texts import DerivedTexts, register_derived_texts


class AgentsConfig(AppConfig):
    """Agents and flows."""

    name = "agents"
    verbose_name = gettext_lazy("Agents")
    citable_urls = "agents.urls"

    def ready(self) -> None:
        """File the node types that ship, and who redacts what is kept of deleted chunks."""
        # Configs and labels need the apps, which are complete only now.
        from agents.chat.agents.agent_section import register_agent_sections
        from agents.chat.history.evidence import redact_answers, redact_deleted

        # The same: it imports models.
        from agents.chat.memory.run_memory import keep_run_exchange, recall_for_run
        from agents.flows import nodes as nodes

        # The same: these modules import models.
        from agents.flows.runs.redact import redact_deleted_runs, redact_runs
        from agents.flows.versions.flow_section import register_flow_section

        # These too.
        from agents.runtime import leftovers
        from agents.runtime.retention import purge_memories_of, purge_orphaned_answers

        register_flow_section()
        register_agent_sections()
        register_memory(MemoryPort(recall_for_run, keep_run_exchange))
        for kind in (
            DerivedTexts("answers", redact_answers, leftovers.count_answers, redact_deleted),
            DerivedTexts("runs", redact_runs, leftovers.count_runs, redact_deleted_runs),
            DerivedTexts(
                "memories", purge_memories_of, leftovers.count_memories, purge_orphaned_answers
            ),
        ):
            register_derived_texts(kind)
