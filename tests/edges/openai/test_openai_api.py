"""OpenAI's own client against a real server: models, answers whole and in pieces, embeddings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import openai
import pytest
from django.utils import timezone

from agents import models
from rag.core.ports import ChatRequest
from rag.core.types import ChatReply
from rag.models import ApiKey, Budget
from rag.services.access.api_keys import create_key
from rag.services.usage.budgets import period_start
from rag.services.wiring import registry as wiring
from tests.asgi_server import server_thread
from tests.factories import DIM, StoreFactory, UserFactory
from tests.integration.agent_world import CITED, QUOTE, AgentWorld, Heard, world

__all__ = ["world"]
ASKED = [{"role": "user", "content": "How often is the pump serviced?"}]


@dataclass
class Desk:
    """A client of OpenAI with a key of the world's user."""

    world: AgentWorld
    url: str
    client: openai.OpenAI

    def ask(self, messages: Any = None, **more: Any) -> Any:
        return self.client.chat.completions.create(model="desk", messages=messages or ASKED, **more)

    def client_with(self, secret: str, **more: Any) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=secret, max_retries=0, **more)


@pytest.fixture
def desk(world: AgentWorld) -> Iterator[Desk]:
    _, secret = create_key(user=world.user, name="k", rights=["read"], requests_per_minute=6000)
    with server_thread() as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=secret, timeout=30)
        yield Desk(world, url, client)


def test_a_whole_answer_with_citations_and_usage(desk: Desk) -> None:
    desk.world.use(CITED)
    answer = desk.ask()
    (choice,) = answer.choices
    assert choice.message.content == "Every 30 days.[1]" and choice.message.role == "assistant"
    assert choice.finish_reason == "stop" and answer.model == "desk"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (10, 5)
    (cited,) = answer.citations
    assert (cited["verdict"], cited["quote"], cited["file_name"]) == (
        "verified",
        QUOTE,
        "pump manual.txt",
    )
    about = answer.citable
    row = models.Message.objects.get(key=about["message"])
    assert answer.id == f"chatcmpl-{row.key.hex}" and row.content == "Every 30 days.[1]"
    assert about["outcome"] == "answered" and about["ignored"] == []
    assert about["sources"][0]["name"] == "pump manual.txt" and "content" not in about["sources"][0]


def test_a_stream_is_the_same_answer_in_pieces(desk: Desk) -> None:
    desk.world.use(CITED)
    chunks = list(desk.ask(stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == "Every 30 days.[1]" and len(chunks) > 4
    last, usage = chunks[-2], chunks[-1]
    assert last.choices[0].finish_reason == "stop" and last.citations[0]["verdict"] == "verified"
    assert last.citable["outcome"] == "answered"
    assert usage.choices == [] and usage.usage.total_tokens == 15
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    plain = list(desk.ask(stream=True))
    assert all(chunk.choices and chunk.usage is None for chunk in plain)


def test_footnotes_are_lines_below_the_text(desk: Desk) -> None:
    desk.world.use(CITED)
    wishes = {"citable": {"footnotes": True, "stores": ["manuals"]}}
    whole = desk.ask(extra_body=wishes).choices[0].message.content
    assert whole == f"Every 30 days.[1]\n\n---\n[1] pump manual.txt, p. 1: “{QUOTE}”"
    pieces = desk.ask(extra_body=wishes, stream=True)
    assert "".join(c.choices[0].delta.content or "" for c in pieces) == whole


def test_key_and_agent_say_whether_footnotes_come(desk: Desk) -> None:
    desk.world.use(CITED)
    desk.world.set(enable_footnotes=True)

    def below(**more: Any) -> bool:
        return "---" in desk.ask(**more).choices[0].message.content

    assert below() and not below(extra_body={"citable": {"footnotes": False}})
    ApiKey.objects.update(footnotes=False)
    assert not below()


def test_what_has_no_effect_is_named_in_a_header(desk: Desk) -> None:
    desk.world.use(CITED)
    sent = {"options": {"num_ctx": 1}, "chat_id": "c", "min_tokens": 2, "bad name\r\n": 1}
    raw = desk.client.chat.completions.with_raw_response
    told = raw.create(model="desk", messages=ASKED, extra_body=sent)
    assert told.headers["X-Citable-Ignored"] == "chat_id, min_tokens, options"
    assert told.parse().citable["ignored"] == sorted(sent)
    streamed = raw.create(model="desk", messages=ASKED, extra_body=sent, stream=True)
    assert streamed.headers["X-Citable-Ignored"] == "chat_id, min_tokens, options"


def test_a_request_with_its_key_is_answered_once(desk: Desk) -> None:
    chat = desk.world.use(CITED)
    key = {"Idempotency-Key": "a-1"}
    first, again = (desk.ask(extra_headers=key) for _ in range(2))
    assert first.id == again.id and again.choices == first.choices
    texts = desk.ask(extra_headers={"Idempotency-Key": "a-2"}, stream=True)
    assert {chunk.id for chunk in texts} != {first.id}
    assert len([one for one in chat.requests if one.passages]) == 2
    with pytest.raises(openai.ConflictError, match="another request"):
        desk.ask(extra_headers=key, temperature=0.1)


def test_a_message_is_as_long_as_the_context_of_its_agent(desk: Desk) -> None:
    desk.world.use(CITED)
    long = "The log of the pump: " + "ok " * 3000 + "How often is the pump serviced?"
    assert desk.ask([{"role": "user", "content": long}]).choices[0].message.content
    desk.world.set(context_tokens=1000)
    with pytest.raises(openai.BadRequestError, match="context_tokens"):
        desk.ask([{"role": "user", "content": long}])


def test_a_response_has_its_citations_as_annotations(desk: Desk) -> None:
    chat = desk.world.use(CITED)
    question = ASKED[0]["content"]
    told = desk.client.responses.create(
        model="desk", input=question, instructions="Be kind.", max_output_tokens=77
    )
    assert told.output_text == "Every 30 days.[1]" and told.status == "completed"
    (note,) = told.output[0].content[0].annotations
    assert (note.type, note.filename, note.index) == ("file_citation", "pump manual.txt", 14)
    assert note.citable["verdict"] == "verified" and note.citable["quote"] == QUOTE
    assert told.usage.total_tokens == 15
    request = chat.requests[-1]
    assert request.max_tokens == 77 and "Be kind." in request.messages[0].content
    on = desk.client.responses.create(
        model="desk",
        input=[{"role": "user", "content": [{"type": "input_text", "text": question}]}],
        previous_response_id=told.id,
    )
    assert on.citable["session"] == told.citable["session"]
    with pytest.raises(openai.NotFoundError):
        desk.client.responses.create(model="desk", input="x", previous_response_id="resp_0")
    with pytest.raises(openai.BadRequestError, match="tools"):
        desk.client.responses.create(model="desk", input="x", tools=[{"type": "web_search"}])


def test_a_response_comes_in_events(desk: Desk) -> None:
    desk.world.use(CITED)
    events = list(desk.client.responses.create(model="desk", input="How often?", stream=True))
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-5:] == [
        "response.output_text.annotation.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert text == "Every 30 days.[1]" == events[-1].response.output_text
    with desk.client.responses.stream(model="desk", input="How often?") as stream:
        assert stream.get_final_response().output_text == text


def test_turns_are_the_history_and_the_conversation_goes_on(desk: Desk) -> None:
    chat = desk.world.use(CITED)
    first = desk.ask(extra_body={"citable": {"footnotes": True}})
    turns = [
        *ASKED,
        {"role": "assistant", "content": first.choices[0].message.content},
        {"role": "user", "content": "How often is the pump serviced in winter?"},
    ]
    second = desk.ask(turns)
    assert second.citable["session"] == first.citable["session"]
    told = [(one.role, one.content) for one in chat.requests[-1].messages]
    assert ("user", ASKED[0]["content"]) in told and ("assistant", "Every 30 days.") in told
    # What was said elsewhere is a conversation of its own, and history all the same.
    elsewhere = [
        {"role": "user", "content": "I have a blue pump."},
        {"role": "assistant", "content": "Nice."},
        *ASKED,
    ]
    third = desk.ask(elsewhere)
    assert third.citable["session"] != first.citable["session"]
    assert ("assistant", "Nice.") in [(m.role, m.content) for m in chat.requests[-1].messages]
    session = models.Session.objects.get(key=third.citable["session"])
    assert session.title == "I have a blue pump." and session.messages.count() == 4


def test_system_messages_come_after_the_agents_own_words(desk: Desk) -> None:
    chat = desk.world.use(CITED)
    desk.world.agent.prompt = "You are the pump desk."
    desk.world.agent.save()
    system = {"role": "system", "content": "Answer like a <pirate>."}
    parts = {"role": "user", "content": [{"type": "text", "text": ASKED[0]["content"]}]}
    desk.ask([system, parts], temperature=0.1, max_tokens=99)
    request = chat.requests[-1]
    said = request.messages[0].content
    assert said.index("pump desk") < said.index("&lt;pirate&gt;")
    assert (request.temperature, request.max_tokens) == (0.1, 99)
    desk.world.agent.refresh_from_db()
    assert desk.world.agent.prompt == "You are the pump desk."
    assert "max_tokens" not in desk.world.agent.config


def test_a_stop_sequence_ends_text_and_model(desk: Desk) -> None:
    desk.world.use("The pump runs. STOP And then much more.")
    for stream in (False, True):
        answer = desk.ask(stop=["STOP", "never"], stream=stream)
        if stream:
            text = "".join(c.choices[0].delta.content or "" for c in answer if c.choices)
        else:
            text = answer.choices[0].message.content
            assert answer.choices[0].finish_reason == "stop"
            assert answer.usage.completion_tokens > 0
        assert text == "The pump runs. "


def test_an_answer_that_was_cut_by_the_limit_says_so(desk: Desk) -> None:
    class Short(Heard):
        async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
            yield ChatReply("The pump", self.id)
            yield ChatReply(" is", self.id, "length", 10, 3)

    desk.world.use(Short(None))
    assert desk.ask(max_tokens=1).choices[0].finish_reason == "length"
    assert list(desk.ask(stream=True))[-1].choices[0].finish_reason == "length"


def test_a_repaired_answer_is_sent_once_it_is_right(desk: Desk) -> None:
    desk.world.set(citation_failure="repair")
    answers = iter(['<cite doc_id="doc_01" quote="It never rests at all.">Never.</cite>', CITED])
    desk.world.use(lambda request: next(answers))
    text = "".join(c.choices[0].delta.content or "" for c in desk.ask(stream=True))
    assert text == "Every 30 days.[1]"


def test_embeddings_in_both_forms_are_those_of_the_search(desk: Desk) -> None:
    name, texts = f"words:{DIM}", ["The pump.", "泵"]
    own = wiring.embedder().embed_passages(texts)
    packed = desk.client.embeddings.create(model=name, input=texts)
    listed = desk.client.embeddings.create(model=name, input=texts, encoding_format="float")
    for found in (packed, listed):
        assert [one.index for one in found.data] == [0, 1]
        for one, vector in zip(found.data, own, strict=True):
            assert one.embedding == pytest.approx(vector.tolist(), abs=1e-7)
        assert found.usage.prompt_tokens == found.usage.total_tokens > 0
    query = desk.client.embeddings.create(
        model=name, input="The pump.", extra_body={"input_type": "query"}
    )
    assert query.data[0].embedding == pytest.approx(
        wiring.embedder().embed_query("The pump.").tolist()
    )


def test_the_list_has_agents_that_may_be_asked_and_embedding_models(desk: Desk) -> None:
    models.Agent.objects.create(name="hidden", owner=UserFactory())
    models.Agent.objects.create(name="off", owner=desk.world.user, is_enabled=False)
    found = {one.id: one for one in desk.client.models.list()}
    assert set(found) - {"rag"} == {"desk", f"words:{DIM}"}
    assert found["desk"].owned_by == "citable" and found["desk"].created > 1_700_000_000
    assert desk.client.models.retrieve(f"words:{DIM}").kind == "embedding"
    for name in ("hidden", "off", "no/body"):
        with pytest.raises(openai.NotFoundError) as told:
            desk.client.models.retrieve(name)
        assert told.value.code == "model_not_found"
        with pytest.raises(openai.NotFoundError) as told:
            desk.client.chat.completions.create(model=name, messages=ASKED)  # type: ignore[arg-type]
        assert (told.value.code, told.value.param) == ("model_not_found", "model")


def test_keys_decide_what_is_found_and_how_often(desk: Desk) -> None:
    desk.world.use(CITED)
    other = StoreFactory(owner=desk.world.user, slug="empty")
    _, narrow = create_key(user=desk.world.user, name="n", stores=[other])
    answer = desk.client_with(narrow).chat.completions.create(model="desk", messages=ASKED)  # type: ignore[call-overload]
    assert answer.citable["outcome"] == "not_found" and answer.citations == []
    with pytest.raises(openai.NotFoundError) as missing:
        desk.client_with(narrow).chat.completions.create(  # type: ignore[call-overload]
            model="desk", messages=ASKED, extra_body={"citable": {"stores": ["manuals"]}}
        )
    assert missing.value.code == "not_found"
    with pytest.raises(openai.AuthenticationError) as wrong:
        desk.client_with("ck_nobody").models.list()
    assert wrong.value.code == "invalid_api_key" and "not known" in wrong.value.message
    _, writer = create_key(user=desk.world.user, name="w", rights=["write"])
    with pytest.raises(openai.PermissionDeniedError):
        desk.client_with(writer).models.list()
    _, slow = create_key(user=desk.world.user, name="s", requests_per_minute=1)
    quick = desk.client_with(slow)
    head = quick.models.with_raw_response.list().headers
    assert head["x-ratelimit-remaining-requests"] == "0"
    with pytest.raises(openai.RateLimitError) as often:
        quick.models.list()
    assert (
        often.value.code == "rate_limit_exceeded" and "retry-after" in often.value.response.headers
    )
    row, poor = create_key(user=desk.world.user, name="p")
    start = period_start(period="day", at=timezone.now())
    Budget.objects.create(key=row, period="day", max_tokens=5, spent_tokens=9, period_start=start)
    with pytest.raises(openai.RateLimitError) as spent:
        desk.client_with(poor).chat.completions.create(model="desk", messages=ASKED)  # type: ignore[call-overload]
    assert spent.value.code == "insufficient_quota"
    assert spent.value.response.headers["x-should-retry"] == "false"
