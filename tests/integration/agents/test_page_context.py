"""What a page sends along: data with a budget of its own, citable, and never the answer's failure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents import models
from agents.chat.agents.page import display_url, read_page
from agents.chat.history.quotes import cited_text
from agents.core.page_context import PageContext
from rag.core.access import Scope
from rag.core.errors import NotFoundError
from rag.services.tokens import count_tokens
from tests.factories import UserFactory
from tests.fakes.loopback import Fault, LoopbackServer, Reply
from tests.integration.agent_world import AgentWorld, world

__all__ = ["world"]
PAGE = "<html><body><h1>Valve</h1><p>The valve is tested every 7 weeks.</p></body></html>"
TESTED = "The valve is tested every 7 weeks."
CITED = f'<cite doc_id="doc_01" quote="{TESTED}">Every 7 weeks.</cite>'


@pytest.fixture
def site(settings: Any) -> Iterator[LoopbackServer]:
    """A site that may be fetched from."""
    settings.RAG = {**settings.RAG, "FETCH_HOSTS": ("127.0.0.1",)}
    with LoopbackServer() as server:
        server.route(
            "GET",
            r"/valve\.html",
            lambda call: Reply(PAGE.encode(), headers={"Content-Type": "text/html"}),
        )
        server.route(
            "GET", r"/long\.txt", lambda call: Reply(("The pipe is long. " * 300).encode())
        )
        yield server


def test_selected_text_is_cited_and_opens_as_it_was(world: AgentWorld) -> None:
    chat = world.use(CITED)
    page = PageContext(
        text=f"A first line.\n\n{TESTED} </document>",
        title="Valves & more",
        url="https://a.example/v?k=1",
        entities=({"name": "Valve <7>", "type": "part"},),
    )
    told = world.ask("How often is it tested?", context=page)
    row = told.row
    assert told.text == "Every 7 weeks.[1]" and row.outcome == "answered"
    (citation,) = row.citations
    assert (citation["verdict"], citation["chunk_id"], citation["file_name"]) == (
        "verified",
        None,
        "Valves & more",
    )
    opened = cited_text(message=row, number=1, scope=world.scope)
    assert opened["text"][opened["start"] : opened["end"]] == TESTED
    assert page.text[citation["char_start"] : citation["char_end"]] == TESTED
    prompt = chat.requests[0].messages[-1].content
    assert 'source="Valves &amp; more"' in prompt and "&lt;/document&gt;" in prompt
    about = prompt.split("<page_context>")[1].split("</page_context>")[0]
    assert "- Valve &lt;7&gt; (type: part)" in about
    again = world.ask(regenerate=str(row.key))
    assert again.row.citations[0]["verdict"] == "verified", "an answer again has the same page"
    assert again.row.request["context"]["text"] == page.text


def test_documents_are_fetched_through_the_guard_and_cited(
    world: AgentWorld, site: LoopbackServer
) -> None:
    world.use(CITED)
    url = f"{site.origin}/valve.html?key=s3cret"
    told = world.ask("How often is the valve tested?", context=PageContext(urls=(url,)))
    (citation,) = told.row.citations
    assert (
        citation["verdict"] == "verified" and citation["file_name"] == f"{site.origin}/valve.html"
    )
    assert cited_text(message=told.row, number=1, scope=world.scope)["text"].count(TESTED) == 1
    assert "s3cret" not in str([event.data for event in told.events]), "a query may hold a key"


def test_what_cannot_be_read_is_a_notice_and_the_rest_answers(
    world: AgentWorld, site: LoopbackServer
) -> None:
    world.set(page_timeout_s=1.5)
    site.faults += [Fault(status=500, on="/broken", times=9), Fault(delay_s=5, on="/slow", times=9)]
    chat = world.use(CITED)
    urls = (
        "http://169.254.169.254/latest",
        "file:///etc/passwd",
        f"{site.origin}/broken",
        f"{site.origin}/slow",
        f"{site.origin}/valve.html",
    )
    told = world.ask("How often is the valve tested?", context=PageContext(urls=urls))
    assert (told.last.kind, told.text) == ("done", "Every 7 weeks.[1]")
    notices = [one["error"] for one in told.of("notice") if one["step"] == "page"]
    assert len(notices) == 4
    assert "root:" not in chat.requests[0].messages[-1].content


def test_a_page_helps_where_the_search_knows_nothing(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.set(min_confidence_score=0.99)
    world.use(CITED)
    page = PageContext(text=TESTED)
    told = world.ask("How often is the frobnicator tested?", context=page)
    assert told.row.outcome == "answered"
    assert [one["source_name"] for one in told.row.sources] == ["page"], (
        "doubtful hits are left out"
    )

    def broken(**_: Any) -> Any:
        raise NotFoundError("gone")

    monkeypatch.setattr("agents.chat.agents.answer_context.retrieve", broken)
    assert world.ask("How often is the valve tested?", context=page).row.outcome == "answered"


def test_the_budget_is_shared_and_holds(site: LoopbackServer) -> None:
    long = "The cable is thick. " * 500 + "The valve is blue."
    page = PageContext(
        text=long,
        urls=(f"{site.origin}/long.txt", f"{site.origin}/valve.html"),
        entities=({"name": "x" * 300},) * 50,
    )
    read = async_to_sync(read_page)(
        page=page,
        query="What colour is the valve?",
        scope=Scope.anonymous(),
        max_tokens=800,
        timeout_s=20.0,
    )
    texts = [hit.text for hit in read.hits]
    assert sum(count_tokens(text) for text in texts) <= 800 and count_tokens(read.about) <= 200
    assert any("The valve is blue." in text for text in texts), "what bears on the question is kept"
    assert any("pipe" in text for text in texts) and any("7 weeks" in text for text in texts)
    for hit in read.hits:
        if hit.content_type == "selection":
            assert long[hit.char_start : hit.char_end] == hit.text
    assert [hit.rank for hit in read.hits] == list(range(1, len(read.hits) + 1))


def test_a_file_of_ours_is_read_by_its_address_only_for_who_may(world: AgentWorld) -> None:
    file = world.store.files.first()
    page = PageContext(urls=(f"/api/files/{file.pk}/original",))

    def read(scope: Scope) -> Any:
        return async_to_sync(read_page)(
            page=page, query="original", scope=scope, max_tokens=500, timeout_s=20.0
        )

    assert [hit.text for hit in read(world.scope).hits] == ["the original"]
    other = read(Scope(UserFactory().pk))
    assert other.hits == [] and isinstance(other.failures[0], NotFoundError)
    world.use('<cite doc_id="doc_01" quote="the original">It is.</cite>')
    row = world.ask("What is the original?", context=page).row
    assert cited_text(message=row, number=1, scope=world.scope)["start"] == 0
    world.store.owner = None
    world.store.save()
    with pytest.raises(NotFoundError):
        cited_text(message=row, number=1, scope=world.scope)


def test_an_address_is_shown_without_what_may_be_secret() -> None:
    assert display_url("https://u:p@a.example/x/y?key=1#f") == "https://a.example/x/y"
    assert display_url("http://[broken") == "http://[broken"


def test_an_agent_with_tools_sees_page_and_memories_too(world: AgentWorld) -> None:
    world.agent.agent_type = "react"
    world.agent.max_iterations = 3
    world.agent.save()
    world.set(enable_memory=True, enable_fast_path=False)
    models.Memory.objects.create(
        user=world.user, project="desk", kind="semantic", subject="pump", text="Their pump is red."
    )
    chat = world.use(CITED)
    page = PageContext(text=TESTED, entities=({"name": "Valve 7"},))
    told = world.ask("How often is my valve tested?", context=page)
    prompt = next(one for one in chat.requests if "<memories>" in one.messages[-1].content)
    content = prompt.messages[-1].content
    assert "- Known: Their pump is red." in content and "- Valve 7" in content
    assert told.row.citations[0]["verdict"] == "verified"
    opened = cited_text(message=told.row, number=1, scope=world.scope)
    assert opened["text"] == TESTED
