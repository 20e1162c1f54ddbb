"""Answers that cite, in agents and flows: ids of passages, the request for a repair, redaction.

What is said of a passage goes with it: a statement that rests on one that is gone is ``[…]``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agents.core.prompts import fill_prompt, prompt_file
from rag.core.hits import Hit
from rag.core.types import Citation, Message
from rag.stages.prompting.context import Passage, escape_data, quote_attribute

# In place of what an answer said from a passage.
GONE = "[…]"
_MARK = re.compile(r"\[\d{1,4}\]")


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


def repair_messages(
    asked: Sequence[Message],
    answer: str,
    failed: tuple[Sequence[Citation], Sequence[str]],
    language: str,
) -> list[Message]:
    """Return the request for the same answer with quotes and statements that hold."""
    citations, statements = failed
    lines = [
        f"- doc_id={quote_attribute(one.doc_id)} quote={quote_attribute(one.quote)}"
        + (f" → {escape_data(one.found)}" if one.found else "")
        for one in citations
    ]
    lines += [f"- {escape_data(statement)}" for statement in statements]
    text = fill_prompt(prompt_file(f"repair_citations_{language}"), {"failed": "\n".join(lines)})
    return [*asked, Message("assistant", answer), Message("user", text)]


def without_statements(
    text: str,
    statements: Sequence[Mapping[str, Any]],
    lost: Sequence[Mapping[str, Any]],
    gone: Collection[Any],
) -> tuple[str, list[dict[str, Any]]]:
    """Return an answer without the statements that rest on what is gone, and its statements anew.

    What no source was found for may rest on it as well.
    """
    numbers = {one.get("number") for one in lost}
    kept, out, at = [], "", 0
    for one in statements:
        is_held = one["verdict"] in ("cited", "attributed")
        rests_on_it = (
            not numbers.isdisjoint(one["citations"])
            or one["doc_id"] in gone
            or (bool(gone) and not is_held)
        )
        out += text[at : one["start"]]
        words, start = text[one["start"] : one["end"]], len(out)
        out += "".join([GONE, *_MARK.findall(words)]) if rests_on_it else words
        kept.append({**one, "start": start, "end": len(out)})
        at = one["end"]
    return out + text[at:], kept
