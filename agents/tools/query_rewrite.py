"""Tool query_rewrite: rewrites a follow-up question so that it stands alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_noop

from agents.core.query_rewriting import parse_rewritten, rewrite_fault, rewrite_messages
from agents.core.state import Turn
from rag.core.errors import InvalidInputError
from rag.core.options import option
from rag.core.plugins import register
from rag.core.ports import ChatRequest
from rag.core.tools import ToolCall
from rag.services.wiring import registry as wiring
from rag.services.wiring.registry import can_write
from rag.stages.query.condense import condense_question

MAX_CHARACTERS = 4000


@register("tool")
class QueryRewrite:
    """Rewrites by the chat model, or by rules where that one only quotes."""

    name = "query_rewrite"
    label = gettext_noop("Make a question stand alone")
    hosts = ()
    description = (
        "Rewrites a question that leans on the conversation, such as “how much is it?”, so that it "
        "can be searched for by itself. Call it before a search when a question points back."
    )

    # Which model is asked is for the agent's editor to say, not for a model.
    house_arguments = ("model",)

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """The question, and what the person asked before."""

        query: str = option(help="The question as it was asked.")
        history: list[str] = option([], help="What the person said before, oldest first.")
        model: str = option("", help="provider:model; empty takes the configured one.")

    def run(self, call: ToolCall) -> dict[str, Any]:
        """Return ``query`` and ``method``: model, or that of ``condense_question``.

        ``refused`` says what was wrong with the model's question where the rules' is returned.
        """
        asked = call.arguments
        query = asked.query.strip()[:MAX_CHARACTERS]
        if not query:
            raise InvalidInputError("The query is empty.", hint="Ask something.")
        said = [text.strip()[:MAX_CHARACTERS] for text in asked.history if text.strip()]
        if not said:
            return {"query": query, "method": "none"}
        chat = wiring.chat_model(asked.model)
        by_rules = condense_question(query, said)
        if not can_write(model_id=chat.id):
            return {"query": by_rules.text, "method": by_rules.method}
        turns: list[Turn] = [{"role": "user", "content": text} for text in said]
        request = ChatRequest(
            rewrite_messages(query, turns),
            question=query,
            temperature=0.0,
            max_tokens=512,
            timeout_s=max(0.1, call.deadline.remaining_s),
        )
        text = parse_rewritten(chat.generate(request).text)
        call.deadline.check()
        if fault := rewrite_fault(text, query, turns, by_rules):
            return {"query": by_rules.text, "method": by_rules.method, "refused": fault}
        return {"query": text, "method": "model"}
