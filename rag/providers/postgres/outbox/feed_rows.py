"""Index rows as another search engine takes them: facts for filters, with vector or terms.

Read when they are fed, not when they changed: whoever feeds twice feeds the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rag.providers.postgres.db.connections import fetch_rows

_FACTS = "x.chunk_id, x.store_id, x.file_id, x.content_type, x.restricted"
_VECTORS = f"""
SELECT {_FACTS}, x.embedding::real[] FROM rag_chunk_vec_s{{space}} x
WHERE x.chunk_id = ANY(%s) AND x.enabled
"""
_WORDS = f"""
SELECT {_FACTS}, x.w::text FROM rag_chunk_lex x WHERE x.chunk_id = ANY(%s) AND x.enabled
"""
_SPACES = """
SELECT s.id, s.dim FROM rag_embeddingspace s
WHERE to_regclass('rag_chunk_vec_s' || s.id) IS NOT NULL ORDER BY s.id
"""
_MISSING = """
SELECT id FROM unnest(%s::bigint[]) id
WHERE NOT EXISTS (SELECT FROM {table} x WHERE x.chunk_id = id AND x.enabled)
"""


@dataclass(frozen=True, slots=True)
class FeedRow:
    """An enabled chunk's facts for filters, with its vector or its words' weights by key.

    ``groups`` None: every reader of the store may read the file.
    """

    chunk_id: int
    store_id: int
    file_id: int
    content_type: str
    groups: tuple[int, ...] | None
    numbers: list[float] | dict[int, float]


def feedable_spaces() -> dict[int, int]:
    """Return the dimension of each space that has a table for its vectors."""
    return dict(fetch_rows(_SPACES))


def read_vectors(space_id: int, chunk_ids: Sequence[int]) -> list[FeedRow]:
    """Return those of the chunks that are enabled and have a vector in the space."""
    return _read(_VECTORS.format(space=int(space_id)), chunk_ids, list)


def read_words(chunk_ids: Sequence[int]) -> list[FeedRow]:
    """Return those of the chunks that are enabled and have words."""
    return [row for row in _read(_WORDS, chunk_ids, _weights) if row.numbers]


def deleted_chunks(space_id: int, chunk_ids: Sequence[int]) -> list[int]:
    """Return those of the chunks that have no enabled row in a space (0: among the words)."""
    table = f"rag_chunk_vec_s{int(space_id)}" if space_id else "rag_chunk_lex"
    return [row[0] for row in fetch_rows(_MISSING.format(table=table), [list(chunk_ids)])]


def _read(statement: str, chunk_ids: Sequence[int], as_numbers: Any) -> list[FeedRow]:
    rows: Iterable[Any] = fetch_rows(statement, [list(chunk_ids)])
    return [
        FeedRow(chunk, store, file, kind, groups and tuple(groups), as_numbers(numbers))
        for chunk, store, file, kind, groups, numbers in rows
    ]


def _weights(text: str) -> dict[int, float]:
    """Read pgvector's ``{key:weight,...}/dimensions``."""
    pairs = (pair.partition(":") for pair in text[1 : text.index("}")].split(",") if pair)
    return {int(key): float(weight) for key, _, weight in pairs}
