"""Settings, errors, access facts and names: the words that everything else speaks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.access import Scope, StoreFacts, may_edit, may_read
from rag.core.documents import ChunkRule, Notice
from rag.core.errors import InvalidInputError, RAGError
from rag.core.types import RetrievalSettings

GROUPS = st.frozensets(st.integers(1, 4), max_size=3)
SCOPES = st.builds(Scope, st.none() | st.integers(1, 3), GROUPS, st.booleans())
STORES = st.builds(StoreFacts, st.none() | st.integers(1, 3), GROUPS, GROUPS, st.booleans())


def test_settings_survive_json_and_their_hash_follows_every_value() -> None:
    settings = RetrievalSettings(mode="keyword", top_k=7, content_types=("a", "b"))
    assert RetrievalSettings.from_dict(settings.as_dict()) == settings
    hashes = {settings.hash, settings.but(top_k=8).hash, settings.but(metadata={"a": 1}).hash}
    assert len(hashes) == 3


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"mode": "fuzzy"}, "auto, hybrid, keyword, semantic"),
        ({"fusion": "sum"}, "rrf, weighted"),
        ({"top_k": 0}, "1 to 200"),
        ({"top_k": True}, "top_k"),
        ({"vector_weight": 1.5}, "0 to 1"),
        ({"vector_weight": 0, "bm25_weight": 0}, "both 0"),
        ({"topk": 3}, "topk"),
    ],
)
def test_wrong_settings_say_what_is_allowed(values: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        RetrievalSettings.from_dict(values)


def test_an_error_is_translated_before_its_values_are_filled_in() -> None:
    error = RAGError("“{name}” is empty.", hint="Fill it.", name="a{b}")
    assert str(error) == "“a{b}” is empty. Fill it."
    chinese = {"“{name}” is empty.": "“{name}”是空的。", "Fill it.": "请补上内容。"}
    assert error.localized(chinese.__getitem__) == "“a{b}”是空的。 请补上内容。"
    assert str(RAGError.from_dict(error.as_dict())) == str(error)


@pytest.mark.parametrize(("size", "overlap"), [(49, 0), (501, 0), (200, -1), (200, 101)])
def test_chunk_rules_out_of_range_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(InvalidInputError, match="Allowed"):
        ChunkRule(size, overlap)


def test_an_overlap_that_swallows_the_chunk_is_clamped_with_a_notice() -> None:
    rule = ChunkRule(50, 100)
    assert rule.effective_overlap == 22
    assert str(rule.notice) == ("An overlap of 100 tokens would swallow chunks of 50: 22 is used.")
    assert ChunkRule(200, 20).notice is None


@given(
    st.text(), st.dictionaries(st.sampled_from(["pages", "n", "remark"]), st.text() | st.integers())
)
def test_a_notice_comes_back_from_json_as_it_was(text: str, values: dict[str, Any]) -> None:
    notice = Notice(text, **values)
    stored = json.loads(json.dumps(notice.as_dict()))
    assert Notice.from_dict(stored) == notice
    # An edge shows it as it shows an error.
    assert RAGError.from_dict(stored).params == notice.params


def test_a_notice_is_a_sentence_with_its_values() -> None:
    notice = Notice("Only the first {n} of {total} pages are kept.", n=3, total=40)
    assert str(notice) == "Only the first 3 of 40 pages are kept."
    shown = RAGError.from_dict(notice.as_dict()).localized(lambda text: text.replace("Only", "Nur"))
    assert shown == "Nur the first 3 of 40 pages are kept."


@given(SCOPES, STORES, GROUPS)
def test_who_may_edit_may_read_and_operators_may_all(
    scope: Scope, store: StoreFacts, restricted: frozenset[int]
) -> None:
    if scope.is_operator:
        assert may_edit(scope, store)
    if may_edit(scope, store):
        assert may_read(scope, store, restricted)
    if may_read(scope, store, restricted):
        assert may_read(scope, store)


@given(STORES, GROUPS)
def test_a_stranger_reads_public_unrestricted_files_only(
    store: StoreFacts, restricted: frozenset[int]
) -> None:
    is_readable = may_read(Scope.anonymous(), store, restricted)
    assert is_readable == (store.is_public and not restricted)


@given(SCOPES, SCOPES)
def test_fingerprints_differ_when_rights_differ(one: Scope, other: Scope) -> None:
    assert (one.fingerprint == other.fingerprint) == (one == other)
