"""Tool memory_retrieve: recalls memories of the person that bear on a question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from django.utils.translation import gettext_noop

from agents.chat.memory.agent_memory import recall_memories
from agents.core.recalled_memory import EPISODIC, SEMANTIC
from rag.core.errors import InvalidInputError
from rag.core.options import option
from rag.core.plugins import register
from rag.core.tools import ToolCall

MAX_CHARACTERS = 4000


@register("tool")
class MemoryRetrieve:
    """Looks into the memories of the one person that the model acts for."""

    name = "memory_retrieve"
    label = gettext_noop("Look into memory")
    hosts = ()
    description = (
        "Returns what is remembered of the person who asks: facts that they told about themselves, "
        "and their earlier questions with the answers given then. Call it when a question refers "
        "to them, their equipment, their preferences or an earlier conversation. Memories are no "
        "documents and cannot be cited."
    )

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """What to look for, and in what."""

        query: str = option(help="What it is about, understandable by itself.")
        kind: Literal["any", "semantic", "episodic"] = option(
            "any", help="Facts (semantic), earlier questions with answers (episodic), or any."
        )
        project: str = option("", help="Only memories of this project; empty: of all.")
        top_k: int = option(5, help="How many of a kind.", minimum=1, maximum=20)

    def run(self, call: ToolCall) -> dict[str, Any]:
        """Return ``memories``, facts first; raise InvalidInputError for an empty query."""
        asked = call.arguments
        query = asked.query.strip()[:MAX_CHARACTERS]
        if not query:
            raise InvalidInputError("The query is empty.", hint="Ask something.")
        kinds = (EPISODIC, SEMANTIC) if asked.kind == "any" else (asked.kind,)
        project = asked.project.strip() or None
        found = recall_memories(
            query=query, scope=call.scope, project=project, kinds=kinds, top_k=asked.top_k
        )
        call.deadline.check()
        return {"memories": [memory.as_dict() for memory in found]}
