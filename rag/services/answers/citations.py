"""Citation manager: citations for a text written from search results, against the pinned text.

Hits that a caller hands in are replaced by what the database holds of their chunks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, TypeGuard

from django.db.models import FilteredRelation, Q

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError
from rag.core.hits import Hit
from rag.core.types import Citation
from rag.stages.citing.citation_markers import Marker, read_markers
from rag.stages.citing.list_sources import list_sources
from rag.stages.citing.verify import VerifiedAnswer, verify_answer
from rag.stages.prompting.context import Passage
from rag.stages.ranking.postprocess import merge_neighbours

MAX_BIGINT = 2**63 - 1
_PLACE = ("char_start", "char_end", "page_first", "page_last")
_FACTS = (
    "pk",
    "revision",
    "text",
    *_PLACE,
    "content_type",
    "store_id",
    "file_id",
    "file__name",
    "heading_path",
    "token_count",
)
_BEFORE = ("pinned__revision", "pinned__text", *(f"pinned__{name}" for name in _PLACE))


def pin_hits(*, hits: Sequence[Hit], scope: Scope) -> tuple[Hit, ...]:
    """Return ``hits`` with everything about our chunks read anew, in one statement.

    The text is that of the pinned revision, or of the newest where none is pinned; retired chunks
    are found too. Of a chunk that ``scope`` may not read, or a revision that never was, nothing is
    left but its place in the order: an empty text; so it is with a merged hit that has such a part.
    Hits without a chunk stay as they are.
    """
    parts = [part for hit in hits for part in hit.parts]
    rows = _rows(
        {part.chunk_id for part in parts if _is_number(part.chunk_id)},
        {part.revision for part in parts if _is_number(part.revision)},
        scope,
    )
    return tuple(hit if hit.chunk_id is None else _pinned(hit, rows) for hit in hits)


def _is_number(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 < value <= MAX_BIGINT


def _rows(
    ids: set[int], revisions: set[int], scope: Scope
) -> dict[tuple[int, int | None], dict[str, Any]]:
    """Return each chunk's facts by (chunk, revision); None is the newest."""
    if not ids:
        return {}
    found = (
        models.Chunk.objects.readable(scope)
        .filter(pk__in=ids)
        .annotate(
            pinned=FilteredRelation(
                "revisions", condition=Q(revisions__revision__in=revisions or {0})
            )
        )
        .order_by()
        .values(*_FACTS, *_BEFORE)
    )
    rows: dict[tuple[int, int | None], dict[str, Any]] = {}
    for row in found:
        rows[row["pk"], None] = rows[row["pk"], row["revision"]] = row
        if row["pinned__revision"] is not None:
            before = {name.removeprefix("pinned__"): row[name] for name in _BEFORE}
            rows.setdefault((row["pk"], before["revision"]), {**row, **before})
    return rows


def _pinned(hit: Hit, rows: dict[tuple[int, int | None], dict[str, Any]]) -> Hit:
    found = [rows.get((part.chunk_id, part.revision)) for part in hit.parts]
    read = [_read(hit, row) for row in found if row is not None]
    if len(read) < len(found):
        return Hit(text="", rank=hit.rank, source=hit.source)
    # The best one leads; chunks that were edited since are no one text any more.
    best = next((one for one in read if one.chunk_id == hit.chunk_id), read[0])
    ranked = [one if one is best else replace(one, rank=hit.rank + 1) for one in read]
    # They were one once, however long.
    joined, _ = merge_neighbours(ranked, partial(_between, hit, read), max_tokens=None)
    return joined[0] if len(joined) == 1 else best


def _between(hit: Hit, parts: Sequence[Hit], _file_id: int, start: int, end: int) -> str:
    """Return the texts of the parts in their places; between them ``hit`` has blanks alone."""
    given = hit.text[start - hit.char_start : end - hit.char_start].ljust(end - start)
    signs = [sign if sign.isspace() else " " for sign in given]
    for one in parts:
        if start <= one.char_start and one.char_end <= end:
            signs[one.char_start - start : one.char_end - start] = one.text
    return "".join(signs)


def _read(hit: Hit, row: Mapping[str, Any]) -> Hit:
    return replace(
        hit,
        text=row["text"],
        revision=row["revision"],
        chunk_id=row["pk"],
        store_id=row["store_id"],
        file_id=row["file_id"],
        file_name=row["file__name"],
        content_type=row["content_type"],
        heading_path=tuple(row["heading_path"]),
        token_count=row["token_count"],
        external_id="",
        data=None,
        metadata={},
        **{name: row[name] for name in _PLACE},
    )


_MARK = re.compile(r"\s*\[\d{1,4}\]")


class CitationManager:
    """Says which of its sources a text rests on, and lists them."""

    @staticmethod
    def add_citations(
        generated_text: str,
        rag_results: Sequence[Mapping[str, Any]],
        *,
        scope: Scope | None = None,
        question: str = "",
        is_strict: bool = False,
    ) -> dict[str, Any]:
        """Return ``text`` with ``[n]`` for each citation, ``citations`` and ``citation_count``.

        The model's own markers are used where there are any (``method`` markers, else
        attribution); a sentence without one is attributed by its words. ``grounding`` holds the
        verdict of each statement, ``unsupported`` are those that no result says. Results are cited
        as ``doc_01`` and so on in their order, or by their ``doc_id``. With a ``scope`` our chunks
        are read anew, in their pinned revision and if the scope may; without it the given contents
        are the truth. ``question`` is what the text answers and repeats. ``is_strict`` accepts only
        whole sentences as quotes. Raises InvalidInputError for a result without content.
        """
        passages = _passages(rag_results, scope)
        has_markers = any(isinstance(part, Marker) for part in read_markers(generated_text))
        verified = verify_answer(generated_text, passages, question=question, is_strict=is_strict)
        told = verified.groundedness
        by_id = {passage.doc_id: passage.hit for passage in passages}
        entries = [
            _entry(citation, by_id.get(citation.doc_id), is_pinned=scope is not None)
            for citation in verified.citations
        ]
        return {
            "text": verified.text,
            "citations": entries,
            "citation_count": len(entries),
            "unsupported": _unsupported(verified),
            "grounding": told.as_dict(),
            "method": "markers" if has_markers else "attribution",
        }

    @staticmethod
    def format_citations(citations: Sequence[Mapping[str, Any]]) -> str:
        """Return the list of sources to put under a text; empty without citations.

        It is worded in the language of what is cited, and says of each citation that is not
        verified what is wrong with it.
        """
        return list_sources(citations)


def _unsupported(verified: VerifiedAnswer) -> list[str]:
    """Return the statements that nothing holds, and what else was cited to no avail."""
    unheld = [one for one in verified.groundedness.statements if not one.holds]
    told = [_MARK.sub("", verified.text[one.start : one.end]).strip() for one in unheld]
    numbers = {number for one in unheld for number in one.citations}
    unknown = [one for one in verified.citations if one.verdict == "unknown"]
    return told + [one.claim or one.quote for one in unknown if one.number not in numbers]


def _passages(results: Sequence[Mapping[str, Any]], scope: Scope | None) -> list[Passage]:
    hits: Sequence[Hit] = [Hit.from_dict(result) for result in results]
    if scope is not None:
        hits = pin_hits(hits=hits, scope=scope)
    names = [str(result.get("doc_id") or f"doc_{n:02d}") for n, result in enumerate(results, 1)]
    if len(set(names)) < len(names):
        raise InvalidInputError(
            "Two results have the same “doc_id”.", hint="Give each one of its own, or none."
        )
    return [Passage(name, hit, hit.text) for name, hit in zip(names, hits, strict=True)]


def _likeness(citation: Citation) -> float:
    """Return how much of the quote stands in its source, 0 to 1."""
    if citation.verdict == "unknown":
        return 0.0
    longest = max(len(citation.quote), len(citation.found), 1)
    return round(max(0.0, 1 - citation.distance / longest), 4)


def _entry(citation: Citation, hit: Hit | None, *, is_pinned: bool) -> dict[str, Any]:
    values = asdict(citation)
    is_known = hit is not None and bool(hit.text)
    source = {"type": "", "name": citation.doc_id, "id": ""}
    if hit is not None and is_known:
        source = {"type": hit.content_type, "name": hit.file_name, "id": hit.document_id}
    return {
        "id": values.pop("number"),
        "source": source,
        "relevance": (hit.score or 0.0) if hit is not None and is_known else 0.0,
        "likeness": _likeness(citation),
        "is_pinned": is_pinned and citation.chunk_id is not None,
        **values,
        "omitted": [list(span) for span in citation.omitted],
    }
