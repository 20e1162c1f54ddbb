"""The example retriever passes LangChain's public suite, against a real server over HTTP."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests

from rag import models
from rag.services.access.api_keys import create_key
from tests.asgi_server import server_thread
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, StoreFactory, UserFactory, publish

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "langchain_retriever"
FACTS = ("every 30 days", "by the maintenance team", "with clean oil", "when it is cold", "in May")


@pytest.fixture
def site(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> Iterator[dict[str, Any]]:
    """A server with five files on pumps; the arguments of a retriever for it."""
    use_words_embedder(monkeypatch, settings)
    monkeypatch.syspath_prepend(str(EXAMPLE))
    user = UserFactory()
    store = StoreFactory(owner=user, slug="manuals")
    for number, fact in enumerate(FACTS):
        file = FileFactory(store=store, name=f"pump {number}.txt", metadata={"number": number})
        publish(file, f"The pump is serviced {fact}.")
    _, secret = create_key(user=user, name="k", rights=["read"])
    with server_thread() as url:
        yield {"url": url, "api_key": secret, "stores": ["manuals"]}
    for name in [name for name in sys.modules if name.startswith("citable_langchain")]:
        del sys.modules[name]


class TestRetriever(RetrieversIntegrationTests):
    """LangChain's own tests."""

    arguments: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _site(self, site: dict[str, Any]) -> None:
        type(self).arguments = site

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        from citable_langchain import CitableRetriever

        return CitableRetriever  # type: ignore[no-any-return]

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return self.arguments

    @property
    def retriever_query_example(self) -> str:
        return "When is the pump serviced?"


def test_documents_say_where_their_text_stands(site: dict[str, Any]) -> None:
    from citable_langchain import CitableRetriever

    (found,) = CitableRetriever(**site, k=1, mode="keyword").invoke("clean oil")
    file = models.File.objects.get(name="pump 2.txt")
    assert found.page_content == "The pump is serviced with clean oil."
    told = found.metadata
    assert (told["source"], told["file_id"], told["number"]) == ("pump 2.txt", file.pk, 2)
    text = file.canonical_text[told["char_start"] : told["char_end"]]
    assert text == found.page_content
    chunk = models.Chunk.objects.get(file=file)
    assert found.id == str(chunk.pk) and told["revision"] == chunk.revision


def test_a_refusal_says_why(site: dict[str, Any]) -> None:
    from citable_langchain import CitableError, CitableRetriever

    for changes, status, code, words in (
        ({"stores": ["nowhere"]}, 404, "not_found", "no store “nowhere”"),
        ({"api_key": "ck_wrong"}, 401, "unauthenticated", "not known"),
        ({"settings": {"top_k": 5, "rerank": "nobody"}}, 422, "invalid_input", "rerank"),
        ({"url": f"{site['url']}/nothing"}, 404, "", "answered 404"),
    ):
        with pytest.raises(CitableError) as told:
            CitableRetriever(**{**site, **changes}).invoke("pump")
        assert (told.value.status, told.value.code) == (status, code), told.value
        assert words in str(told.value)
    with pytest.raises(ValueError, match="stores"):
        CitableRetriever(**{**site, "stores": []})
    assert "ck_" not in repr(CitableRetriever(**site))
