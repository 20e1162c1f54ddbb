"""Search hits: what a search or a source found; frozen, JSON-safe both ways."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from rag.core.errors import InvalidInputError

MAX_SCORE = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Leg:
    """A hit's place in one leg of the search; both None when the leg did not score it."""

    rank: int | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One retrieved chunk with its place in each leg, or one row or item of another source.

    ``file_name`` is what people call the place it came from. What is no chunk of ours has no
    ``chunk_id``, ``file_id`` and span, may have an ``external_id`` where it came from, and its
    row or item as JSON-safe ``data``. ``score`` None: the source does not rank.
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
    token_count: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def document_id(self) -> str:
        """Return what the hit's document is called by programs: our file's id, or the source's."""
        return self.external_id or ("" if self.file_id is None else str(self.file_id))

    @property
    def chunk_ids(self) -> tuple[int, ...]:
        """Return the chunks whose text it has: one, or those that were merged into it."""
        parts = (self.data or {}).get("chunks", ()) if self.chunk_id is not None else ()
        ids = [self.chunk_id, *(part["chunk_id"] for part in parts)]
        return tuple(dict.fromkeys(pk for pk in ids if pk is not None))

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
            return cls(
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
                metadata=dict(stored.get("metadata") or {}),
                **{name: stored[name] for name in _PLAIN if stored.get(name) is not None},
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidInputError("A result cannot be read: {reason}.", reason=error) from error


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
