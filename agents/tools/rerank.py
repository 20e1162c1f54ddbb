"""Tool rerank: orders texts by their relevance to a question, with scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from django.utils.translation import gettext_noop

from rag.core.errors import InvalidInputError
from rag.core.hits import Hit
from rag.core.options import option
from rag.core.plugins import register
from rag.core.tools import ToolCall
from rag.services.search import rerank_hits

MAX_TEXTS, MAX_CHARACTERS = 20, 20_000


@register("tool")
class Rerank:
    """Ranks texts by a chat model or a reranker."""

    name = "rerank"
    label = gettext_noop("Rank texts")
    hosts = ()
    description = (
        "Sorts up to 20 texts by how useful each is for answering a question and scores them from "
        "0 to 1. Call it when a search returned more passages than are needed."
    )

    # Which model is asked is for the agent's editor to say, not for a model.
    house_arguments = ("model",)

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """What is asked, and what is to be sorted."""

        query: str = option(help="The question.")
        texts: list[str] = option(help="The texts to sort, at most 20.")
        method: Literal["llm", "endpoint"] = option("llm", help="Who ranks.")
        model: str = option("", help="provider:model of llm; empty takes the configured one.")

    def run(self, call: ToolCall) -> dict[str, Any]:
        """Return ``ranking``: index of the text (from 0) and score, best first."""
        asked = call.arguments
        hits = _hits_of(asked.texts)
        ranked = rerank_hits(
            query=asked.query,
            hits=hits,
            method=asked.method,
            model=asked.model,
            timeout_s=max(0.1, call.deadline.remaining_s),
        )
        call.deadline.check()
        return {"ranking": [{"index": int(hit.external_id), "score": hit.score} for hit in ranked]}


def _hits_of(texts: list[str]) -> list[Hit]:
    if not 1 <= len(texts) <= MAX_TEXTS:
        raise InvalidInputError(
            "There are {n} texts.", hint="Allowed: 1 to {limit}.", n=len(texts), limit=MAX_TEXTS
        )
    return [
        Hit(text=text[:MAX_CHARACTERS], rank=number + 1, external_id=str(number))
        for number, text in enumerate(texts)
    ]
