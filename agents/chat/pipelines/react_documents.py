"""Document ids of a ReAct run: hits of tool calls numbered for citing.

A passage keeps its id for the whole run, however often it is found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agents.core.pipeline import PipelineRun
from rag.core.hits import Hit
from rag.stages.prompting.context import Passage, build_context

# Documents escape what they hold: such a tag is one of ours.
_TAG = re.compile(r'<document id="doc_(\d+)"')


def number_documents(
    known: Sequence[Passage], hits: Sequence[Hit], run: PipelineRun, language_of: str
) -> tuple[list[Passage], str]:
    """Return all passages, those of ``hits`` that are new at the end, and what the model is told.

    That is the new ones as ``<documents>`` within the config's budget, and the ids of those that
    it has been shown before.
    """
    places = {passage_key(passage.hit): passage.doc_id for passage in known}
    fresh = [hit for hit in hits if passage_key(hit) not in places]
    again = [places[passage_key(hit)] for hit in hits if passage_key(hit) in places]
    context = build_context(
        list({passage_key(hit): hit for hit in fresh}.values()),
        run.config.context_tokens,
        run.count_tokens,
        context_type="xml",
        language_of=language_of,
    )
    n = len(known)
    text = _TAG.sub(lambda tag: f'<document id="{doc_id_of(int(tag[1]) + n)}"', context.text)
    if again:
        text += f'\n<shown_before ids="{", ".join(dict.fromkeys(again))}"/>'
    new = [
        replace(passage, doc_id=doc_id_of(number + n))
        for number, passage in enumerate(context.passages, start=1)
    ]
    return [*known, *new], text.strip()


def serialize_sources(passages: Sequence[Passage]) -> list[dict[str, Any]]:
    """Return what was found as everybody is told it, with the ids it is cited by."""
    return [{**passage.hit.as_dict(), "doc_id": passage.doc_id} for passage in passages]


def doc_id_of(number: int) -> str:
    """Return the id by which a model cites a document."""
    return f"doc_{number:02d}"


def passage_key(hit: Hit) -> tuple[Any, ...]:
    """Return what is the same for a passage, however often it is found."""
    if hit.chunk_id is not None:
        return hit.chunk_ids, hit.revision
    return hit.source, hit.external_id, hit.text
