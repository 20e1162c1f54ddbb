"""One key for searches that must find the same, and only for those."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag.core.access import Scope
from rag.core.types import RetrievalSettings
from rag.providers.postgres.search.generations import StoreState
from rag.services.search import result_cache as module
from rag.services.search.result_cache import CacheKey, normalize_query, search_cache_key
from rag.stages.text.terms import index_terms, query_terms

STATES = [
    StoreState(1, 3600, 77, False, "e5:m", 384, "1"),
    StoreState(2, 60, 78, False, "e5:m", 384, "1"),
]
BASE: dict[str, Any] = {
    "query": "pump",
    "scope": Scope(user_id=1),
    "settings": RetrievalSettings(),
    "states": STATES,
}


def key(**changes: Any) -> CacheKey | None:
    return search_cache_key(**{**BASE, **changes})


def asked(**changes: Any) -> bytes:
    found = key(**changes)
    assert found is not None
    return found.payload


def with_state(**changes: Any) -> list[StoreState]:
    return [STATES[0], replace(STATES[1], **changes)]


@pytest.mark.parametrize(
    "changes",
    [
        {"query": "pumps"},
        {"query": "Pump"},
        {"query": "pump?"},
        {"scope": Scope(user_id=2)},
        {"scope": Scope.anonymous()},
        {"scope": Scope.operator()},
        {"scope": Scope(user_id=1, group_ids=frozenset({1}))},
        {"scope": Scope(user_id=1, is_operator=True)},
        {"scope": Scope(user_id=1, only_store_ids=frozenset({1, 2}))},
        {"settings": RetrievalSettings(top_k=5)},
        {"settings": RetrievalSettings(vector_weight=0.71)},
        {"states": STATES[:1]},
        {"states": with_state(generation=79)},
        {"states": with_state(store_id=3)},
        {"states": with_state(model="e5:n")},
        {"states": with_state(dim=64)},
        {"states": with_state(version="2")},
        {"extra": "list"},
    ],
)
def test_whatever_may_change_a_result_changes_the_key(changes: dict[str, Any]) -> None:
    assert asked(**changes) != asked()


def test_equal_searches_have_one_key() -> None:
    again = {"query": "  pump ", "settings": RetrievalSettings(), "states": list(STATES)}
    assert asked(**again) == asked()


def test_another_release_or_another_model_has_other_keys(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    before = asked()
    settings.RAG = {**settings.RAG, "E5_PRECISION": "fp32"}
    assert asked() != before
    settings.RAG = {**settings.RAG, "E5_PRECISION": "int8"}
    assert asked() == before
    monkeypatch.setattr(module, "_code_digest", lambda: "another")
    assert asked() != before


def test_the_release_is_known_by_what_its_code_and_statements_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_PACKAGE", tmp_path)
    (tmp_path / "stages").mkdir()
    (tmp_path / "admin").mkdir()
    digests = [module._code_digest.__wrapped__()]
    for name, text, is_other in [
        ("stages/terms.py", "1", True),
        ("stages/terms.py", "2", True),
        ("stages/hybrid.sql", "2", True),
        ("stages/terms.pyc", "x", False),
        ("admin/page.py", "x", False),
        ("stages/terms.py", "2", False),
    ]:
        (tmp_path / name).write_text(text)
        digests.append(module._code_digest.__wrapped__())
        assert (digests[-1] != digests[-2]) == is_other, name


def test_the_shortest_time_of_all_stores_holds() -> None:
    found = key()
    assert found is not None
    assert found.ttl_s == 60


@pytest.mark.parametrize(
    "states", [[], with_state(ttl_s=0), with_state(is_ours=True)], ids=["none", "no time", "ours"]
)
def test_where_nothing_may_be_kept_there_is_no_key(states: list[StoreState]) -> None:
    assert key(states=states) is None


def test_spellings_of_the_same_words_are_one() -> None:
    assert normalize_query(" ＨＸ－４００\u3000 pump\n\tﬁlter ") == "HX-400 pump filter"


def test_a_query_that_looks_chinese_after_folding_is_searched_as_such() -> None:
    assert normalize_query("㍿") == normalize_query("株式会社")
    assert asked(query="㍿") == asked(query="株式会社")


@given(st.text(max_size=60))
@example("水\n泵")
@example("a\u0301b  c")
@example("①②³ ㎏ ﬀ ｶﾞ")
@example("x\x1cy\x85z\u3000")
def test_one_key_never_stands_for_other_terms(text: str) -> None:
    assert query_terms(normalize_query(text)) == query_terms(text)
    assert index_terms(normalize_query(text)) == index_terms(text)
    assert normalize_query(normalize_query(text)) == normalize_query(text)


@given(st.text(st.characters(codec=None), max_size=40))
def test_any_text_has_a_key(text: str) -> None:
    assert asked(query=text) == asked(query=text)
