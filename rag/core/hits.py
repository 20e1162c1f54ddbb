"""Search hits: what a search or a source found; frozen, JSON-safe both ways."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from rag.core.errors import InvalidInputError

MAX_SCORE = sys.float_info.max


# ``Hit.source`` of what a tool worked out without a document.
TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Leg:
    """A hit's place in one leg of the search; both None when the leg did not score it."""

    rank: int | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class HitPart:
    """A chunk in a hit, in the revision that was found, and its span of the file's text."""

    chunk_id: int
    revision: int | None
    char_start: int
    char_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One retrieved chunk with its place in each leg, or one row or item of another source.

    ``file_name`` is what people call the place it came from. What is no chunk of ours has no
    ``chunk_id``, ``file_id`` and span, may have an ``external_id`` where it came from, and its
    row or item as JSON-safe ``data``. ``score`` None: the source does not rank. ``table_header`` is
    what the text goes on with and stands in an earlier chunk: a table's header, a list's lead, a
    title. ``parent_start`` names the passage that a chunk is shown with, until it is.
    """

    text: str
    rank: int
    score: float | None = None
    file_name: str = ""
    content_type: str = ""
    source: str = "vector_store"
    external_id: str = ""
    data: Mapping[str, Any] | None = None
    chunk_id: int | None = None
    revision: int | None = None
    store_id: int | None = None
    file_id: int | None = None
    vector: Leg = Leg()
    lexical: Leg = Leg()
    matched_terms: tuple[str, ...] = ()
    char_start: int = 0
    char_end: int = 0
    page_first: int | None = None
    page_last: int | None = None
    heading_path: tuple[str, ...] = ()
    table_header: str = ""
    token_count: int = 0
    parent_start: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def document_id(self) -> str:
        """Return what the hit's document is called by programs: our file's id, or the source's."""
        return self.external_id or ("" if self.file_id is None else str(self.file_id))

    @property
    def parts(self) -> tuple[HitPart, ...]:
        """Return the chunks whose text it has, in order: one, or those that were merged into it."""
        if self.chunk_id is None:
            return ()
        if merged := (self.data or {}).get("chunks"):
            return tuple(HitPart(**part) for part in merged)
        return (HitPart(self.chunk_id, self.revision, self.char_start, self.char_end),)

    @property
    def chunk_ids(self) -> tuple[int, ...]:
        """Return the chunks whose text it has, the best one first."""
        return hit_chunk_ids({"chunk_id": self.chunk_id, "data": self.data})

    @property
    def page(self) -> int | None:
        """Return the page where its best chunk begins."""
        start = next((one.char_start for one in self.parts if one.chunk_id == self.chunk_id), 0)
        return self.page_at(max(0, start - self.char_start))

    def page_at(self, position: int) -> int | None:
        """Return the page of a position in the text: pages are joined by a form feed."""
        if self.page_first is None:
            return None
        n_before = self.text.count("\f", 0, position)
        return min(self.page_last or self.page_first, self.page_first + n_before)

    def parts_at(self, start: int, end: int) -> tuple[HitPart, ...]:
        """Return the chunks that ``start`` to ``end`` of the file stand in.

        That is one which has all of it, the best if it can be, else all that it touches.
        """
        holders = [one for one in self.parts if one.char_start <= start and end <= one.char_end]
        if holders:
            return (min(holders, key=lambda one: one.chunk_id != self.chunk_id),)
        touched = (one for one in self.parts if one.char_start < end and start < one.char_end)
        return tuple(touched) or self.parts

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-safe form that agents, flows and the API show; ``from_dict`` reads it.

        ``content``, ``score``, ``content_type``, ``document_id`` and ``source`` (type, name, id)
        are there for every hit.
        """
        return {
            "content": self.text,
            "score": self.score,
            "content_type": self.content_type,
            "document_id": self.document_id,
            "source": {"type": self.content_type, "name": self.file_name, "id": self.document_id},
            "source_name": self.source,
            "rank": self.rank,
            "vector": {"rank": self.vector.rank, "score": self.vector.score},
            "lexical": {"rank": self.lexical.rank, "score": self.lexical.score},
            "highlights": list(self.matched_terms),
            "heading_path": list(self.heading_path),
            "table_header": self.table_header,
            "data": None if self.data is None else dict(self.data),
            "metadata": dict(self.metadata),
            **{name: getattr(self, name) for name in _PLAIN},
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Return the hit of a dict that ``as_dict`` made, or one with only its first keys.

        Raises InvalidInputError when ``content`` is no text or another value has a wrong shape.
        """
        if not isinstance(stored.get("content"), str):
            raise InvalidInputError("A result has no text under “content”.")
        try:
            place = stored.get("source") or {}
            _check_numbers(stored)
            hit = cls(
                text=stored["content"],
                rank=stored.get("rank") or 1,
                score=stored.get("score"),
                file_name=str(place.get("name") or ""),
                content_type=str(stored.get("content_type") or place.get("type") or ""),
                source=stored.get("source_name") or "vector_store",
                external_id=_external_id(stored, place),
                data=stored.get("data"),
                vector=Leg(**(stored.get("vector") or {})),
                lexical=Leg(**(stored.get("lexical") or {})),
                matched_terms=tuple(stored.get("highlights") or ()),
                heading_path=tuple(stored.get("heading_path") or ()),
                table_header=str(stored.get("table_header") or ""),
                metadata=dict(stored.get("metadata") or {}),
                **{name: stored[name] for name in _PLAIN if stored.get(name) is not None},
            )
            _check_parts(hit.parts)
            return hit
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidInputError("A result cannot be read: {reason}.", reason=error) from error


def hit_chunk_ids(stored: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the chunks whose text a stored hit or citation has, the best one first.

    Whatever shape it has: what names no chunk of ours gives none.
    """
    best, data = stored.get("chunk_id"), stored.get("data")
    merged = data.get("chunks") if isinstance(data, Mapping) else stored.get("chunk_ids")
    others = merged if best is not None and isinstance(merged, (list, tuple)) else ()
    ids = [best, *(one.get("chunk_id") if isinstance(one, Mapping) else one for one in others)]
    return tuple(dict.fromkeys(pk for pk in ids if type(pk) is int))


def _check_parts(parts: Iterable[HitPart]) -> None:
    for part in parts:
        if any(type(getattr(part, name)) is not int for name in _SPAN):
            raise ValueError("a chunk that was merged has no place")


def _check_numbers(stored: Mapping[str, Any]) -> None:
    for name in ("rank", *_PLAIN):
        value = stored.get(name)
        if value is not None and type(value) is not int:
            raise ValueError(f"{name} is no whole number")
    score = stored.get("score")
    # JSON spells whole numbers that no float holds.
    if score is not None and not (isinstance(score, (int, float)) and abs(score) <= MAX_SCORE):
        raise ValueError("score is no number")


def _external_id(stored: Mapping[str, Any], place: Mapping[str, Any]) -> str:
    found = stored.get("document_id") or place.get("id")
    file_id = stored.get("file_id")
    is_ours = file_id is not None and str(found) == str(file_id)
    return "" if found is None or is_ours else str(found)


_SPAN = ("chunk_id", "char_start", "char_end")
_PLAIN = (
    "chunk_id",
    "revision",
    "store_id",
    "file_id",
    "char_start",
    "char_end",
    "page_first",
    "page_last",
    "token_count",
)
