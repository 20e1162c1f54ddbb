"""Which rows of words differ from their texts, and what they change in the statistics."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from rag.providers.postgres.db.literals import sparse_field
from rag.providers.postgres.lexical.bm25 import pack_text, term_key
from rag.providers.postgres.lexical.pack_rows import TermJob, TermPack, TermRow, pack_terms

STORE, MEAN = 7, 10.0
SEEN = b"\0\0\1\2"


def right_row(chunk_id: int, text: str, mean: float = MEAN, **values: Any) -> TermRow:
    """Return the row that a text has when it was weighed by ``mean``."""
    words = pack_text(STORE, text, mean)
    raw = sparse_field(words.keys, words.weights)[4:]
    row = TermRow(chunk_id, 1, text, SEEN, words.length, words.is_han, raw)
    return row._replace(**values)


def pack(*rows: TermRow) -> TermPack:
    return pack_terms(TermJob(STORE, MEAN, rows))


def changes(found: TermPack) -> dict[int, int]:
    return dict(zip(found.keys.tolist(), found.dn.tolist(), strict=True))


def key(term: str) -> int:
    return term_key(STORE, term)


def test_rows_that_are_right_are_left_out() -> None:
    found = pack(right_row(1, "a pump and a motor"), right_row(2, "水泵和阀门"))
    assert (found.rows, found.ids, found.length, changes(found)) == (b"", [], 0, {})


def test_weights_of_a_mean_nearby_are_right() -> None:
    assert pack(right_row(1, "a pump and a motor", 10.02)).ids == []


def test_weights_of_another_mean_are_written_and_no_statistics_change() -> None:
    found = pack(right_row(1, "a pump and a motor", 13.0), right_row(2, "a pump"))
    assert found.ids == [1]
    assert (found.length, changes(found)) == (0, {})


def test_another_text_changes_the_terms_it_lost_and_won() -> None:
    other = right_row(1, "old pump pump")
    found = pack(other._replace(indexed="new pump"))
    assert found.ids == [1]
    assert found.length == -1
    assert changes(found) == {key("new"): 1, key("old"): -1}


def test_a_chunk_without_a_row_wins_all_its_terms() -> None:
    found = pack(right_row(3, "pump motor pump", seen=None, length=None, is_han=None, raw=None))
    assert found.ids == [3]
    assert found.length == 3
    assert changes(found) == {key("pump"): 1, key("motor"): 1}


def test_what_one_row_loses_and_another_wins_is_no_change() -> None:
    one, two = right_row(1, "pump"), right_row(2, "motor")
    found = pack(one._replace(indexed="motor"), two._replace(indexed="pump"))
    assert found.ids == [1, 2]
    assert changes(found) == {}


def test_a_wrong_length_or_script_alone_is_written() -> None:
    assert pack(right_row(1, "pump", length=9)).length == -8
    found = pack(right_row(1, "pump", is_han=True))
    assert (found.ids, found.length, changes(found)) == ([1], 0, {})


def test_a_row_is_copied_with_the_version_it_was_compared_with() -> None:
    words = pack_text(STORE, "pump", MEAN)
    field = sparse_field(words.keys, words.weights)
    head = struct.pack(">hiqii", 6, 8, 1, 4, 1)
    tail = struct.pack(">iii?", 4, 1, 1, False) + field
    assert pack(right_row(1, "pump", length=2)).rows == head + b"\0\0\0\4" + SEEN + tail
    assert pack(right_row(1, "pump", seen=None, raw=None)).rows == head + b"\xff" * 4 + tail


def test_the_statistics_are_arrays_that_copy_takes() -> None:
    found = pack(right_row(1, "pump")._replace(indexed="motor"))
    assert found.keys.dtype == np.int32
    assert found.dn.dtype == np.int64
    assert (np.diff(found.keys) > 0).all()
