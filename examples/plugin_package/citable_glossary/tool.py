"""Tool ``explain_term``: the meaning of one term, for a model that met it in a source."""

from __future__ import annotations

from dataclasses import dataclass

from citable_glossary.source import shipped
from rag.core.errors import UnknownNameError
from rag.core.options import option
from rag.core.plugins import register
from rag.core.tools import ToolCall


@register("tool")
class ExplainTerm:
    """Looks one term up, upper or lower case; an unknown one is told with the known ones."""

    name = "explain_term"
    hosts = ()
    label = "Explain a term"
    description = "Returns the `meaning` of a technical term. Call it for a term nobody explained."

    @dataclass(frozen=True)
    class Options:
        term: str = option(help="The term, as the source writes it.")

    def run(self, call: ToolCall) -> dict[str, str]:
        """Return ``term`` and ``meaning``; raise UnknownNameError for a term that is not there."""
        asked = call.arguments.term.strip().casefold()
        call.deadline.check()
        for term, meaning in shipped().items():
            if term.casefold() == asked:
                return {"term": term, "meaning": meaning}
        raise UnknownNameError("term", call.arguments.term, sorted(shipped()))
