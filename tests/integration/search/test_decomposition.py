"""Questions of several parts: what each part finds is shown, within one scope and one number."""

from __future__ import annotations

from typing import Any

import pytest

from rag import models
from rag.core.access import Scope
from rag.core.errors import UnknownNameError
from rag.core.types import RetrievalSettings
from rag.services.search.decomposition import LEAST_HITS
from rag.services.search.retrieval import retrieve
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, StoreFactory, publish

pytestmark = pytest.mark.django_db
QUESTION = "Where was the author of “Tin Road” born?"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> models.Store:
    use_words_embedder(monkeypatch, settings)
    store = StoreFactory(is_public=True)
    publish(FileFactory(store=store), "The novel “Tin Road” was written by Ada Bell in spring.")
    publish(FileFactory(store=store), "Ada Bell was born in Halwick and liked ships.")
    for n in range(8):
        publish(FileFactory(store=store), f"Person{n} Stone{n} was born in Town{n}.")
    store.refresh_from_db()
    return store


def found(store: models.Store, query: str = QUESTION, **changes: Any) -> Any:
    settings = store.retrieval_settings.but(**changes)
    return retrieve(
        query=query,
        scope=Scope.operator(),
        stores=[store],
        settings=settings,
        purpose="evaluation",
    )


def test_the_name_in_the_first_passage_finds_the_second(store: models.Store) -> None:
    result = found(store)
    assert "Tin Road" in result.hits[0].text
    assert "Halwick" in result.hits[1].text
    assert [hit.rank for hit in result.hits] == list(range(1, len(result.hits) + 1))
    assert result.top_k == LEAST_HITS
    told = result.metadata["decomposition"]
    assert told["has_hops"]
    assert told["queries"][:2] == ["the author of “Tin Road”", "Where was Ada Bell born"]
    assert result.confidence is not None and 0 <= result.confidence <= 1
    assert result.timings_ms["parts"] > 0

    assert len(found(store, top_k=2).hits) == 2
    once = found(store, decomposition="none", top_k=2)
    assert "decomposition" not in once.metadata
    assert not any("Halwick" in hit.text for hit in once.hits)
    with pytest.raises(UnknownNameError, match="decomposition"):
        RetrievalSettings(decomposition="model")


def test_joined_questions_are_both_answered(store: models.Store) -> None:
    query = "Who was born in Town3 and who wrote the novel Tin Road?"
    texts = " ".join(hit.text for hit in found(store, query, top_k=2).hits)
    assert "Town3" in texts and "Tin Road" in texts


def test_a_question_of_one_part_is_searched_once(store: models.Store) -> None:
    assert "decomposition" not in found(store, "Who wrote “Tin Road”?").metadata
