"""Tool grade: a verdict and a score for each text on whether it answers a question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_noop

from rag.core.errors import InvalidInputError
from rag.core.hits import Hit
from rag.core.options import option
from rag.core.plugins import register
from rag.core.tools import ToolCall
from rag.services.search import lexical_overlap, rerank_hits
from rag.services.wiring import registry as wiring
from rag.services.wiring.registry import can_write

MAX_TEXTS, MAX_CHARACTERS = 20, 20_000
RELEVANT = 0.5


@register("tool")
class Grade:
    """Judges texts by the chat model, or by shared words where that one only quotes."""

    name = "grade"
    label = gettext_noop("Grade texts")
    hosts = ()
    description = (
        "Tells for each of up to 20 texts whether it is relevant to a question, with a score from "
        "0 to 1. Call it to decide whether what was found is enough or the search must go on."
    )

    # Which model is asked is for the agent's editor to say, not for a model.
    house_arguments = ("model",)

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """What is asked, and what is to be judged."""

        question: str = option(help="The question.")
        texts: list[str] = option(help="The texts to judge, at most 20.")
        model: str = option("", help="provider:model; empty takes the configured one.")

    def run(self, call: ToolCall) -> dict[str, Any]:
        """Return ``grades`` in the order of the texts, and the ``method``: model or words."""
        asked = call.arguments
        if not 1 <= len(asked.texts) <= MAX_TEXTS:
            raise InvalidInputError(
                "There are {n} texts.",
                hint="Allowed: 1 to {limit}.",
                n=len(asked.texts),
                limit=MAX_TEXTS,
            )
        is_by_model = can_write(model_id=wiring.chat_model(asked.model).id)
        scores = self._by_model(call) if is_by_model else self._by_words(call)
        call.deadline.check()
        grades = [
            {"index": index, "score": round(score, 3), "is_relevant": score >= RELEVANT}
            for index, score in enumerate(scores)
        ]
        return {"grades": grades, "method": "model" if is_by_model else "words"}

    def _by_model(self, call: ToolCall) -> list[float]:
        texts = call.arguments.texts
        hits = [
            Hit(text=text[:MAX_CHARACTERS], rank=number + 1, external_id=str(number))
            for number, text in enumerate(texts)
        ]
        # A model ranks at least two.
        hits += [Hit(text="", rank=2, external_id="1")] if len(hits) == 1 else []
        ranked = rerank_hits(
            query=call.arguments.question,
            hits=hits,
            method="llm",
            model=call.arguments.model,
            timeout_s=max(0.1, call.deadline.remaining_s),
        )
        by_index = {int(hit.external_id): hit.score or 0.0 for hit in ranked}
        return [by_index[number] for number in range(len(texts))]

    def _by_words(self, call: ToolCall) -> list[float]:
        asked = call.arguments
        return [lexical_overlap(query=asked.question, text=text) for text in asked.texts]
