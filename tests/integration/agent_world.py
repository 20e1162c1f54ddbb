"""What tests of agents stand on: a store about pumps, an agent, scripted models, a way to ask."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents import models
from agents.chat.answers.control import start_answer
from agents.chat.answers.create import MessageRequest
from agents.chat.answers.worker import AnswerWorker
from agents.core.chat_events import ChatEvent
from rag.core.access import Scope
from rag.core.ports import ChatRequest
from rag.core.types import ChatReply
from rag.services.access.api_keys import scope_of
from rag.services.wiring import registry as wiring
from rag.services.wiring.registry import model_of_script
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, StoreFactory, UserFactory, publish

TEXTS = (
    "The pump is serviced every 30 days by the maintenance team.",
    "The filter of the pump is replaced once a year. It costs 45 yuan.",
    "The warranty of the pump lasts two years from delivery.",
    "Seeds are borrowed from the library until 15 November.",
    "泵 的 保修期 是 两年，自 交付 之日 起 计算。",
)
QUOTE = "The pump is serviced every 30 days by the maintenance team."
CITED = f'<cite doc_id="doc_01" quote="{QUOTE}">Every 30 days.</cite>'
OPEN: Mapping[str, Any] = {
    "vector_threshold": 0.0,
    "bm25_threshold": 0.0,
    "min_confidence_score": 0.1,
}


@dataclass
class Told:
    """An answer as its events told it."""

    events: list[ChatEvent]

    @property
    def text(self) -> str:
        text = ""
        for event in self.events:
            text = event.data["text"] if event.kind == "replace" else text
            text += event.data["text"] if event.kind == "delta" else ""
        return text

    @property
    def last(self) -> ChatEvent:
        return self.events[-1]

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        return [event.data for event in self.events if event.kind == kind]

    @property
    def row(self) -> models.Message:
        return models.Message.objects.get(key=self.events[0].data["message"])


@dataclass
class Heard:
    """A chat model that records what it was asked and answers by a function."""

    answer: Any
    id: str = "test:model"
    requests: list[ChatRequest] = field(default_factory=list)

    def generate(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        return ChatReply(self.answer(request), model=self.id, finish_reason="stop")

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        self.requests.append(request)
        text = self.answer(request)
        for at in range(0, len(text), 7):
            yield ChatReply(text[at : at + 7], model=self.id)
        yield ChatReply("", self.id, "stop", 10, 5)


@dataclass
class AgentWorld:
    """One person, one store, one agent; ``use`` gives it a model."""

    agent: models.Agent
    scope: Scope
    user: Any
    store: Any
    monkeypatch: pytest.MonkeyPatch

    def use(self, chat: Any) -> Any:
        """Let every chat model be this one: a port, a function, a text, or a script's dict."""
        if isinstance(chat, str):
            text = chat
            chat = Heard(lambda request: text)
        elif isinstance(chat, dict):
            chat = model_of_script(script=chat, name="test")
        elif not hasattr(chat, "stream"):
            chat = Heard(chat)
        self.monkeypatch.setattr(wiring, "chat_model", lambda name="": chat)
        return chat

    def set(self, **config: Any) -> None:
        self.agent.config = {**self.agent.config, **config}
        self.agent.save()

    def ask(self, message: str = "", after: int = 0, **order: Any) -> Told:
        """Ask and return all events."""
        return async_to_sync(self.aask)(message, **order)

    async def aask(self, message: str = "", **order: Any) -> Told:
        given = MessageRequest(agent=self.agent, scope=self.scope, message=message, **order)
        chat = await start_answer(order=given)
        told = [event async for event in AnswerWorker.replay(chat.answer.pk)]
        await settled()
        return Told(told)


async def settled() -> None:
    """Wait until no answer is at work any more, summaries included."""

    await AnswerWorker.stopped(10)


@pytest.fixture
def world(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> Iterator[AgentWorld]:
    """A store with five texts in two files, and an agent that looks into all it may."""
    use_words_embedder(monkeypatch, settings)
    user = UserFactory()
    store = StoreFactory(owner=user, slug="manuals", name="Manuals")
    publish(FileFactory(store=store, name="pump manual.txt"), *TEXTS[:3])
    publish(FileFactory(store=store, name="library.txt"), *TEXTS[3:])
    agent = models.Agent.objects.create(name="desk", owner=user, config=dict(OPEN))
    yield AgentWorld(agent, scope_of(user), user, store, monkeypatch)


def sse_events(body: str) -> list[tuple[int, str, Any]]:
    """Return (id, event, data) of a stream; pings have the id 0."""
    found = []
    for block in body.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "event" in lines:
            found.append((int(lines.get("id", 0)), lines["event"], json.loads(lines["data"])))
    return found
