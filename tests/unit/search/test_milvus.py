"""Milvus without a Milvus: what is asked for, what is written, what its errors may say."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from rag.core.errors import ConfigurationError, UnknownNameError
from rag.core.ports import FileFilter, IndexQuery, StoreTarget
from rag.core.types import RetrievalSettings
from rag.models.outbox import WORDS
from rag.providers.milvus import collections, index
from rag.providers.milvus.collections import collection_name, fed_spaces
from rag.providers.milvus.index import MAX_FILES, candidate_filter, search_candidates
from rag.providers.milvus.server import MilvusServer
from rag.providers.postgres.outbox.feed_rows import FeedRow
from rag.services.wiring import registry as search_providers
from rag.services.wiring import registry as wiring

OPEN, CLOSED = (StoreTarget(1, 5, 8, 10, sees_restricted=True), StoreTarget(2, 5, 8, 10, False))


class Recorder:
    """Stands where a server does; keeps what it is asked and answers with ``answers``."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.asked = answers, list[tuple[str, tuple[Any, ...], dict[str, Any]]]()

    def call(self, method: str, *args: Any, **values: Any) -> Any:
        self.asked.append((method, args, values))
        return self.answers.get(method)

    read = call


def query(*targets: StoreTarget, **values: Any) -> IndexQuery:
    settings = RetrievalSettings(content_types=values.pop("types", ()))
    groups = frozenset(values.pop("groups", ()))
    return IndexQuery(targets, groups, {}, {}, settings, **values)


@pytest.fixture(autouse=True)
def _mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collections, "database_id", lambda: "0a1b2c3d")


def test_who_sees_all_of_a_store_is_not_asked_for_groups() -> None:
    assert candidate_filter(query(OPEN), [1]) == "store_id in [1]"


def test_others_are_proposed_open_files_and_those_of_their_groups() -> None:
    assert candidate_filter(query(CLOSED), [2]) == "store_id in [2] and (is_open == true)"
    asked = query(OPEN, CLOSED, groups=(9, 4))
    assert candidate_filter(asked, [2, 1]) == (
        "store_id in [1, 2] and (is_open == true or array_contains_any(groups, [4, 9]) or store_id in [1])"
    )
    assert candidate_filter(asked, [2]) == (
        "store_id in [2] and (is_open == true or array_contains_any(groups, [4, 9]))"
    )


def test_types_are_quoted_and_files_are_named_while_they_are_few() -> None:
    odd = 'a" or true or "手册\\'
    where = candidate_filter(query(OPEN, types=(odd,), files=FileFilter([3, 2], 9)), [1])
    quoted = '"a\\" or true or \\"手册\\\\"'
    assert where == f"store_id in [1] and content_type in [{quoted}] and file_id in [2, 3]"
    many = FileFilter(range(MAX_FILES + 1), 9)
    assert candidate_filter(query(OPEN, files=many), [1]) == "store_id in [1]"


def test_a_graph_keeps_as_many_in_view_as_are_asked_for() -> None:
    server: Any = Recorder(search=[[{"chunk_id": 4}, {"chunk_id": 2}]])
    vector = np.array([0.5, 0.25], np.float32)
    assert search_candidates(server, 5, vector, "store_id in [1]", 800) == [4, 2]
    assert search_candidates(server, WORDS, {7: 1.5}, "store_id in [1]", 800) == [4, 2]
    (_, (vectors,), by_vector), (_, (words,), by_words) = server.asked
    assert (vectors, words) == ("citable_0a1b2c3d_vectors_5", "citable_0a1b2c3d_words")
    assert by_vector["data"] == [[0.5, 0.25]] and by_words["data"] == [{7: 1.5}]
    assert by_vector["search_params"] == {"params": {"ef": 800}}
    assert by_words["search_params"] == {"params": {}}
    assert {by_vector["limit"], by_words["limit"]} == {800}
    assert index.MOST == 16_384


def test_only_this_databases_collections_are_seen() -> None:
    names = [
        collection_name(WORDS),
        collection_name(12),
        "citable_ffffffff_words",
        "words",
        "citable_0a1b2c3d_vectors_x",
        "other",
    ]
    server: Any = Recorder(list_collections=names)
    assert fed_spaces(server) == {WORDS, 12}


def test_rows_carry_what_filters_need_and_too_many_groups_count_as_open() -> None:
    server: Any = Recorder()
    some, many = (3, 4), tuple(range(collections.MAX_GROUPS + 1))
    rows = [
        FeedRow(1, 2, 3, "manual", None, {7: 0.5}),
        FeedRow(2, 2, 3, "manual", some, {7: 0.5}),
        FeedRow(3, 2, 3, "manual", many, {7: 0.5}),
    ]
    collections.feed_collection(server, WORDS, rows, [9])
    (_, _, written), (removed, _, gone) = server.asked
    assert [(row["is_open"], row["groups"]) for row in written["data"]] == [
        (True, []),
        (False, [3, 4]),
        (True, []),
    ]
    assert written["data"][0] == {
        "chunk_id": 1,
        "store_id": 2,
        "file_id": 3,
        "content_type": "manual",
        "is_open": True,
        "groups": [],
        "words": {7: 0.5},
    }
    assert (removed, gone) == ("delete", {"ids": [9]})
    collections.feed_collection(server, 5, [], [])
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("milvus:19530", "RAG_MILVUS_URI is no web address"),
        ("", "RAG_MILVUS_URI is no web address"),
        ("ftp://milvus", "http://milvus:19530"),
        ("http://root:geheim@milvus:19530", "Put them into RAG_MILVUS_TOKEN"),
    ],
)
def test_an_address_is_checked_before_it_is_called(uri: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        MilvusServer(uri)
    assert "geheim" not in str(caught.value)


def test_people_read_a_name_without_database_or_token() -> None:
    assert MilvusServer("https://kb.example.org:443/db", "root:geheimnis").name == (
        "Milvus at kb.example.org:443"
    )
    assert MilvusServer("/var/lib/milvus.db").name == "milvus-lite"
    with pytest.raises(ConfigurationError, match="RAG_MILVUS_TOKEN"):
        MilvusServer("http://milvus:19530", "two words")


def test_without_its_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(ConfigurationError, match=r"pip install pymilvus==3\.0\.2"):
        fed_spaces(MilvusServer("http://127.0.0.1:1"))


def test_the_provider_is_chosen_by_a_setting(settings: Any, fresh_wiring: None) -> None:
    settings.RAG = settings.RAG | {"SEARCH_PROVIDER": "postgres"}
    assert type(wiring.index()).__name__ == "PostgresIndex"
    assert not search_providers.is_milvus()
    wiring.index.cache_clear()
    settings.RAG = settings.RAG | {"SEARCH_PROVIDER": "milvus", "MILVUS_URI": ""}
    with pytest.raises(ConfigurationError, match="Set RAG_MILVUS_URI"):
        wiring.index()
    settings.RAG = settings.RAG | {"MILVUS_URI": "http://127.0.0.1:1", "MILVUS_TOKEN": "geheimnis"}
    assert type(wiring.index()).__name__ == "MilvusIndex"
    assert search_providers.milvus_server() is search_providers.milvus_server()
    assert "geheimnis" not in repr(search_providers.conf())
    wiring.index.cache_clear()
    settings.RAG = settings.RAG | {"SEARCH_PROVIDER": "elastic"}
    with pytest.raises(UnknownNameError, match="Known: milvus, postgres"):
        wiring.index()
