"""The example of a web search: what it asks, what it makes of the answer, whom it tells."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError, ProviderError
from rag.core.plugins import PLUGINS, outbound_hosts
from rag.core.sources import FetchReply, FetchRequest, SourceQuery
from rag.services.sources import SourceContext

PACKAGE = Path(__file__).resolve().parents[3] / "examples/plugin_package"
PAGE = {"title": "Drip lines", "url": "https://garden.example/drip", "content": "They drip."}


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(PACKAGE))
    monkeypatch.setattr(PLUGINS, "_found", {kind: dict(of) for kind, of in PLUGINS._found.items()})
    from citable_glossary.web_search import WebSearch  # only where the package is on the path

    yield WebSearch
    for name in [name for name in sys.modules if name.split(".")[0] == "citable_glossary"]:
        del sys.modules[name]


def asked(plugin: Any, monkeypatch: pytest.MonkeyPatch, body: Any) -> tuple[Any, FetchRequest]:
    requests: list[FetchRequest] = []

    def fetch(_: Any, request: FetchRequest, *, deadline: Deadline) -> FetchReply:
        requests.append(request)
        return FetchReply(200, {}, json.dumps(body).encode(), request.url)

    monkeypatch.setattr(SourceContext, "fetch", fetch)
    source = plugin(plugin.Options(endpoint="https://searx.example/search", top_k=2))
    query = SourceQuery("drip line?", Scope.anonymous(), Deadline(5), SourceContext(), {})
    return source.retrieve(query).hits, requests[0]


def test_pages_are_hits_that_can_be_cited(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hits, request = asked(plugin, monkeypatch, {"results": [PAGE] * 5})
    assert request.params == {"q": "drip line?", "format": "json"}
    assert [(hit.rank, hit.file_name, hit.external_id) for hit in hits] == [
        (1, "Drip lines", "https://garden.example/drip"),
        (2, "Drip lines", "https://garden.example/drip"),
    ]
    assert hits[0].text == "Drip lines\nThey drip."
    told = outbound_hosts(plugin, {"endpoint": "https://searx.example/search"})
    assert told == {"searx.example"}


@pytest.mark.parametrize("body", [{}, [], {"results": [{"title": "no address"}]}])
def test_another_answer_is_an_error(
    plugin: Any, monkeypatch: pytest.MonkeyPatch, body: Any
) -> None:
    with pytest.raises(ProviderError, match="no list of results"):
        asked(plugin, monkeypatch, body)
    with pytest.raises(InvalidInputError):
        plugin(plugin.Options(endpoint="ftp://x"))
