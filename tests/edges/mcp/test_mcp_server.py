"""The MCP server with the official client: tools, rights, faults, restarts, many at once."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

import httpx2
import pytest
from django.db import OperationalError, connection
from mcp import Client, MCPError

from agents import models
from rag.core.plugins import PLUGINS
from rag.services.access.api_keys import create_key, revoke_key
from tests.edges.mcp_client import POST, Desk, desk, world
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish
from tests.integration.agent_world import CITED, QUOTE, TEXTS

__all__ = ["desk", "world"]
QUESTION = "How often is the pump serviced?"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_both_protocols_find_the_server_and_its_tools(desk: Desk, mode: Any) -> None:
    async def work(client: Client) -> Any:
        listed = await client.list_tools()
        found = await client.call_tool("search", {"query": QUESTION, "top_k": 1})
        return client.server_info, client.instructions, listed.tools, found

    info, instructions, tools, found = desk.with_client(work, mode=mode)
    assert info.name == "citable" and "search finds passages" in instructions
    by_name = {tool.name: tool for tool in tools}
    assert {"search", "ask", "list_stores", "fetch_document", *PLUGINS.names("tool")} == set(
        by_name
    )
    assert by_name["search"].input_schema["required"] == ["query"]
    assert by_name["search"].annotations.read_only_hint is True
    assert by_name["vector_retrieve"].description.startswith("Searches the knowledge base")
    assert QUOTE in found.structured_content["results"][0]["content"]
    assert json.loads(found.content[0].text) == found.structured_content


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_stores_documents_and_chunks_are_resources(desk: Desk, mode: Any) -> None:
    other = FileFactory(store=StoreFactory(owner=UserFactory(), slug="board"), name="secret.txt")
    (hidden,) = publish(other, "The board meets at noon.")
    (hit,) = desk.call("search", query=QUESTION, top_k=1)["results"]

    async def work(client: Client) -> Any:
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        read = [(await client.read_resource(one.uri)).contents[0].text for one in listed]
        chunk = await client.read_resource(f"citable://chunks/{hit['chunk_id']}")
        refusals = []
        for uri in (
            f"citable://documents/{other.pk}",
            f"citable://chunks/{hidden.pk}",
            "citable://stores/board",
            "citable://stores/nowhere",
            "citable://chunks/x",
            "file:///etc/passwd",
        ):
            try:
                await client.read_resource(uri)
            except MCPError as error:
                refusals.append(str(error).replace(uri, "…"))
        return listed, templates, read, chunk.contents[0].text, refusals

    listed, templates, read, chunk, refusals = desk.with_client(work, mode=mode)
    assert listed[0].name == "manuals" and len(listed) == 3
    assert "pump manual.txt" in read[0] and QUOTE in read[1] and chunk in hit["content"]
    assert "secret" not in str(listed) + str(read)
    assert len(refusals) == 6 and len(set(refusals)) == 1
    assert len(templates) == 3


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_prompts_are_filled_in_the_reader_s_language(desk: Desk, mode: Any) -> None:
    async def work(client: Client) -> Any:
        names = [one.name for one in (await client.list_prompts()).prompts]
        told = await client.get_prompt("answer_from_documents", {"question": QUESTION})
        with pytest.raises(MCPError, match="question"):
            await client.get_prompt("answer_from_documents", {})
        with pytest.raises(MCPError, match="nonsense"):
            await client.get_prompt("nonsense", {})
        return names, told.messages[0].content.text

    names, text = desk.with_client(work, mode=mode)
    assert "summarize_document" in names and text.endswith(QUESTION)
    chinese = desk.with_client(work, mode=mode, headers={"accept-language": "zh-Hans"})[1]
    assert QUESTION in chinese and not chinese.startswith("Search")


def test_notices_are_logged_to_who_listens(desk: Desk) -> None:
    heard: list[Any] = []

    async def listen(params: Any) -> None:
        heard.append(params)

    async def work(client: Client) -> Any:
        return await client.call_tool("search", {"query": "What is the code QX-9917?"})

    found = desk.with_client(work, mode="legacy", logging_callback=listen)
    assert found.structured_content["notice"] in [one.data for one in heard]
    assert {one.logger for one in heard} == {"search"}


def test_from_a_search_to_the_text_around_it(desk: Desk) -> None:
    assert desk.call("list_stores") == {
        "stores": [{"store": "manuals", "title": "Manuals", "files": 2}]
    }
    (hit,) = desk.call("search", query=QUESTION, stores=["manuals"], top_k=1)["results"]
    assert (hit["file"], hit["store"]) == ("pump manual.txt", "manuals")
    whole = desk.call("fetch_document", document=hit["document"])
    assert whole["text"][hit["char_start"] : hit["char_end"]] == hit["content"]
    assert whole["next_start"] is None and whole["end"] == whole["length"]
    text, start = "", 0
    while start is not None:
        piece = desk.call("fetch_document", document=hit["document"], start=start, limit=50)
        text, start = text + piece["text"], piece["next_start"]
    assert text == whole["text"] and all(one in text for one in TEXTS[:3])


def test_an_agent_answers_with_citations_and_goes_on(desk: Desk) -> None:
    desk.world.use(CITED)
    first = desk.call("ask", question=QUESTION, agent="desk")
    assert first["answer"].startswith("Every 30 days.[1]\n\n---\n[1] pump manual.txt")
    assert first["citations"][0]["verdict"] == "verified" and first["outcome"] == "answered"
    second = desk.call("ask", question=QUESTION, agent="desk", session=first["session"])
    assert second["session"] == first["session"]
    session = models.Session.objects.get(key=first["session"])
    assert session.user == desk.world.user and session.messages.count() == 4


def test_the_tools_of_agents_are_there_too(desk: Desk) -> None:
    found = desk.call("vector_retrieve", query=QUESTION, top_k=2)
    assert QUOTE in found["results"][0]["content"]
    graded = desk.call("grade", question=QUESTION, texts=[QUOTE, "Tea is poured."])
    assert graded["grades"][0]["is_relevant"] is True
    alone = desk.call("query_rewrite", query="How much is it?")
    assert alone["query"] == "How much is it?"
    assert "There are 0 texts" in desk.refusal("rerank", query=QUESTION, texts=[])


def test_arguments_that_do_not_fit_are_told_to_the_model(desk: Desk) -> None:
    assert "query" in desk.refusal("search")
    assert "Known:" in desk.refusal("search", query="x", nonsense=1)
    assert "Allowed: 1 to 50" in desk.refusal("search", query="x", top_k=99)
    assert "no store “nowhere”" in desk.refusal("search", query="x", stores=["nowhere"])
    assert "The query is empty" in desk.refusal("search", query=" ")
    assert "no agent “nobody”" in desk.refusal("ask", question="x", agent="nobody")
    for document in ("0", "abc", "9" * 30, "fileSearchStores/x/documents/1"):
        assert "There is no document" in desk.refusal("fetch_document", document=document)

    async def unknown(client: Client) -> Any:
        await client.call_tool("drop_tables", {})

    with pytest.raises(BaseExceptionGroup) as told:
        desk.with_client(unknown)
    assert told.value.subgroup(MCPError) is not None

    async def chinese(client: Client) -> Any:
        return await client.call_tool("search", {"query": " "})

    said = desk.with_client(chinese, headers={"accept-language": "zh-Hans"})
    assert "查询为空" in said.content[0].text or "空" in said.content[0].text


def test_a_fault_of_ours_tells_nothing_of_itself(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(**_: Any) -> Any:
        raise ZeroDivisionError("secret-detail")

    monkeypatch.setattr("agents.chat.mcp.tools.retrieve", broken)
    told = desk.refusal("search", query="x")
    assert told.startswith("Something went wrong here") and "secret" not in told
    (record,) = (one for one in caplog.records if one.name == "agents.api.mcp.server")
    assert record.getMessage().startswith(f"the tool search failed for user {desk.world.user.pk},")
    assert record.exc_info is not None


def test_a_database_that_is_away_is_a_503_that_says_so(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> Any:
        raise OperationalError("connection to server at secret-host failed")

    monkeypatch.setattr("project.mcp_app.authenticate", away)
    headers = {**POST, "authorization": f"Bearer {desk.secret}"}
    answer = httpx2.post(f"{desk.url}/mcp", json={"jsonrpc": "2.0", "id": 1}, headers=headers)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["error"]["code"] == "unavailable" and "secret" not in answer.text


def test_what_hangs_is_left_when_its_time_is_over(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken = threading.Event()
    monkeypatch.setattr("agents.chat.mcp.tools.CALL_S", 0.2)
    monkeypatch.setattr("agents.chat.mcp.tools.retrieve", lambda **_: woken.wait(10))
    began = time.monotonic()
    assert "did not answer within 0.2 s" in desk.refusal("search", query="x")
    assert time.monotonic() - began < 5
    woken.set()


def test_what_the_house_chooses_is_not_the_callers(desk: Desk) -> None:
    async def work(client: Client) -> Any:
        return (await client.list_tools()).tools

    shown = {tool.name: tool.input_schema["properties"] for tool in desk.with_client(work)}
    for name in ("grade", "rerank", "query_rewrite"):
        assert "model" not in shown[name]
    said = desk.refusal("query_rewrite", query="x", history=["y"], model="gemini:dear")
    assert "query_rewrite.model" in said and "Known: history, query" in said


def test_a_failed_answer_is_an_error_of_the_tool(desk: Desk) -> None:
    desk.world.use("")
    assert "answered with nothing" in desk.refusal("ask", question=QUESTION, agent="desk")


def test_who_leaves_stops_the_agent_or_lets_it_end(desk: Desk, settings: Any) -> None:
    slow = {"contains": "pump", "answer": "one two three four", "delay_s": 1.0}
    desk.world.use({"answers": [slow], "default": ""})

    async def leave(client: Client) -> None:
        asking = client.call_tool("ask", {"question": QUESTION, "agent": "desk"})
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asking, 0.4)

    for mode, alone in (("legacy", True), ("legacy", False), ("auto", True), ("auto", False)):
        settings.AGENTS = {**settings.AGENTS, "FINISHES_ALONE": alone}
        desk.with_client(leave, mode=mode)
        for _ in range(200):
            message = models.Message.objects.filter(role="assistant").latest("pk")
            if message.status != "running":
                break
            time.sleep(0.02)
        assert message.status == ("done" if alone else "stopped"), (mode, alone)


def test_keys_decide_what_is_seen(desk: Desk) -> None:
    other = StoreFactory(owner=UserFactory(), slug="secret")
    hidden = FileFactory(store=other)
    publish(hidden, "The code is 1234.")
    empty = StoreFactory(owner=desk.world.user, slug="empty")
    _, narrow = create_key(user=desk.world.user, name="n", stores=[empty])
    assert [one["store"] for one in desk.call("list_stores", narrow)["stores"]] == ["empty"]
    assert desk.call("search", narrow, query=QUESTION)["results"] == []
    assert "There is no document" in desk.refusal("fetch_document", document=str(hidden.pk))
    own = desk.call("search", query=QUESTION)["results"][0]["document"]
    assert "There is no document" in desk.refusal("fetch_document", narrow, document=own)
    restricted = FileFactory(store=desk.world.store, name="board.txt")
    publish(restricted, "The board meets on Monday.")
    group = GroupFactory()
    restricted.restricted_to.add(group)
    reader = UserFactory()
    readers = GroupFactory()
    reader.groups.add(readers)
    desk.world.store.reader_groups.add(readers)
    _, guest = create_key(user=reader, name="g")
    assert desk.call("list_stores", guest)["stores"][0]["files"] == 2
    asked = {"query": "When does the board meet?"}
    assert "board.txt" in [hit["file"] for hit in desk.call("search", **asked)["results"]]
    seen = [hit["file"] for hit in desk.call("search", guest, **asked)["results"]]
    assert seen and "board.txt" not in seen
    assert "There is no document" in desk.refusal(
        "fetch_document", guest, document=str(restricted.pk)
    )


def test_without_a_right_key_nobody_comes_in(desk: Desk, settings: Any) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    for given in ("Bearer ck_wrong", "Basic eDp5", "Bearer"):
        answer = desk.post(body, authorization=given)
        assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["error"]["code"] == "unauthenticated"
    _, writer = create_key(user=desk.world.user, name="w", rights=["write"])
    assert desk.post(body, authorization=f"Bearer {writer}").status_code == 403
    _, slow = create_key(user=desk.world.user, name="s", requests_per_minute=1)
    codes = [desk.post(body, authorization=f"Bearer {slow}") for _ in range(2)]
    assert [one.status_code for one in codes] == [200, 429] and codes[1].headers["retry-after"]
    assert desk.post(body, host="evil.example").status_code == 400
    assert desk.post(body, origin="https://evil.example").status_code == 403
    assert desk.post(body, origin=desk.url).status_code == 200
    settings.CORS_ALLOWED_ORIGINS = [site := "https://app.example"]
    told = desk.post(body, origin=site)
    assert (told.status_code, told.headers["access-control-allow-origin"]) == (200, site)
    asked = {"origin": site, "access-control-request-method": "POST"}
    told = httpx2.options(f"{desk.url}/mcp", headers=asked)
    assert (
        told.status_code == 204 and "authorization" in told.headers["access-control-allow-headers"]
    )
    refused = desk.post(body, origin="https://evil.example")
    assert "access-control-allow-origin" not in refused.headers
    for method in ("get", "delete"):
        answer = getattr(httpx2, method)(f"{desk.url}/mcp", headers=POST)
        assert answer.status_code == 405 and answer.headers["allow"] == "POST"

    async def none(client: Client) -> None:
        await client.list_tools()

    with pytest.raises(BaseExceptionGroup):
        desk.with_client(none, "ck_wrong")


def test_a_key_that_is_revoked_in_mid_session_is_refused(desk: Desk) -> None:
    key, secret = create_key(user=desk.world.user, name="short", rights=["read"])
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    assert desk.post(body, authorization=f"Bearer {secret}").status_code == 200
    assert revoke_key(key=key)
    refused = desk.post(body, authorization=f"Bearer {secret}")
    assert refused.status_code == 401
    assert refused.json()["error"]["message"] == "The key was revoked."


def test_it_goes_on_after_the_database_was_restarted(desk: Desk) -> None:
    async def work(client: Client) -> list[Any]:
        found = []
        for _ in range(3):
            results = await asyncio.gather(
                *(client.call_tool("search", {"query": QUESTION}) for _ in range(4))
            )
            found += [one.is_error for one in results]
            await asyncio.to_thread(cut)
        return found

    def cut() -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
        connection.close()

    assert desk.with_client(work) == [False] * 12
    # This thread's own connection was cut too.
    connection.close()


def test_many_clients_call_at_once(desk: Desk) -> None:
    desk.world.use(CITED)

    async def one(number: int) -> Any:
        async with desk.client() as client:
            if number % 3 == 0:
                return await client.call_tool("ask", {"question": QUESTION, "agent": "desk"})
            return await client.call_tool("search", {"query": QUESTION})

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*map(one, range(12)))

    assert [result.is_error for result in asyncio.run(all_of_them())] == [False] * 12


def test_what_cannot_be_read_or_is_too_long_is_refused_with_a_sentence(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("project.request_limits.MAX_BODY", 1024**2)
    own = {"authorization": f"Bearer {desk.secret}"}
    odd = httpx2.post(f"{desk.url}/mcp", headers={**own, "content-type": "a/b; a*=nonsense''x"})
    assert (odd.status_code, odd.json()["error"]["code"]) == (400, "malformed")
    long = httpx2.post(f"{desk.url}/mcp", headers=own, content=bytes(1024**2 + 1))
    assert (long.status_code, long.json()["error"]["code"]) == (413, "too_large")
