"""What calls found, numbered for citing. In: documents known, hits. Out: all, and the new as XML.

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


def shelve(
    known: Sequence[Passage], hits: Sequence[Hit], run: PipelineRun, language_of: str
) -> tuple[list[Passage], str]:
    """Return all passages, those of ``hits`` that are new at the end, and what the model is told.

    That is the new ones as ``<documents>`` within the config's budget, and the ids of those that
    it has been shown before.
    """
    places = {place_of(passage.hit): passage.doc_id for passage in known}
    fresh = [hit for hit in hits if place_of(hit) not in places]
    again = [places[place_of(hit)] for hit in hits if place_of(hit) in places]
    context = build_context(
        list({place_of(hit): hit for hit in fresh}.values()),
        run.config.context_tokens,
        run.count_tokens,
        context_type="xml",
        language_of=language_of,
    )
    n = len(known)
    text = _TAG.sub(lambda tag: f'<document id="{doc_name(int(tag[1]) + n)}"', context.text)
    if again:
        text += f'\n<shown_before ids="{", ".join(dict.fromkeys(again))}"/>'
    new = [
        replace(passage, doc_id=doc_name(number + n))
        for number, passage in enumerate(context.passages, start=1)
    ]
    return [*known, *new], text.strip()


def sources_of(passages: Sequence[Passage]) -> list[dict[str, Any]]:
    """Return what was found as everybody is told it, with the ids it is cited by."""
    return [{**passage.hit.as_dict(), "doc_id": passage.doc_id} for passage in passages]


def doc_name(number: int) -> str:
    """Return the id by which a model cites a document."""
    return f"doc_{number:02d}"


def place_of(hit: Hit) -> tuple[Any, ...]:
    """Return what is the same for a passage, however often it is found."""
    if hit.chunk_id is not None:
        return hit.chunk_id, hit.revision
    return hit.source, hit.external_id, hit.text
