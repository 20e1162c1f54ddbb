"""House paths: the files of ours that run between a request and its response, on all threads."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import AsyncMock, patch

from benchmarks.house import PACKAGES, ROOT, Measure
from benchmarks.scratch import scratch_database

# isort: split
# Django is set up by now, so that models can be imported.
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import AsyncClient, override_settings

from agents import models
from rag.services.access import create_key
from rag.services.evaluation import ensure_corpus_store

OURS = tuple(f"{ROOT / package}/" for package in PACKAGES)
DOCUMENTS = {
    "pump": "The pump HX-400 is serviced every 500 hours. Its filter is cleaned each week.",
    "lamp": "When a UV lamp breaks, ventilate the room for fifteen minutes and leave it.",
    "valve": "The relief valve opens at six bar and closes again at five.",
}
QUESTIONS = ("How often is the pump serviced?", "How long do I ventilate after a UV lamp breaks?")
USE = "use:multilingual-v3"
SCRIPT = '{"default": "The pump HX-400 is serviced every 500 hours.[1]"}'

_END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


class Recorder:
    """Collects the files whose functions are called while ``is_on``, on threads begun after it."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.is_on = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear every call of a function, this thread's and those of threads begun inside."""
        threading.setprofile(self._hear)
        sys.setprofile(self._hear)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]

    def _hear(self, frame: FrameType, event: str, _: Any) -> None:
        if self.is_on and event == "call":
            name = frame.f_code.co_filename
            # What a module does when it is imported is no step of a request.
            if name.startswith(OURS) and frame.f_code.co_name != "<module>":
                self.files.add(name)

    async def files_of(self, ask: Callable[[str], Awaitable[str]]) -> list[str]:
        """Return the files of the second of two questions; the first one fills the caches."""
        await ask(QUESTIONS[0])
        self.files, self.is_on = set(), True
        try:
            await ask(QUESTIONS[1])
        finally:
            self.is_on = False
        return sorted(str(Path(name).relative_to(ROOT)) for name in self.files)


def answer_paths() -> tuple[list[str], list[str]]:
    """Return the files of an agent's answer and of a retrieval, both over HTTP.

    Needs an empty database and a chat model that cites; makes a store, an agent and a key.
    """
    recorder = Recorder()
    # What follows an answer is no part of its way, and begins before or after the reader has it.
    afterwards = patch("agents.chat.answers.worker.post_process", AsyncMock())
    store = ensure_corpus_store(corpus="house", documents=DOCUMENTS, on_embedded=lambda n: None)
    owner = get_user_model().objects.create_user("house")
    type(store).objects.filter(pk=store.pk).update(owner=owner)
    agent = models.Agent.objects.create(name="house", owner=owner)
    agent.stores.set([store])
    _, secret = create_key(user=owner, name="house", rights=["read", "write"])
    with afterwards, recorder.listening():
        return asyncio.run(_both(recorder, secret, store.slug))


async def _both(recorder: Recorder, secret: str, store: str) -> tuple[list[str], list[str]]:
    async def post(url: str, body: dict[str, Any], last_words: str) -> str:
        headers = {"Authorization": f"Bearer {secret}"}
        response = await AsyncClient().post(url, body, "application/json", headers=headers)
        pieces = [piece async for piece in response.streaming_content] if response.streaming else []
        text = (b"".join(pieces) or getattr(response, "content", b"")).decode()
        if last_words not in text:
            raise SystemExit(f"{url}: {response.status_code} {text[-500:]}")
        return text

    answer = await recorder.files_of(
        lambda question: post("/api/agents/house/chat", {"message": question}, "event: done")
    )
    retrieve = await recorder.files_of(
        lambda question: post("/api/rag/retrieve", {"query": question, "stores": [store]}, "hits")
    )
    # What follows an answer is written after its last event.
    await asyncio.sleep(1)
    return answer, retrieve


def measure_paths(database: str | None = None) -> list[Measure]:
    """Return how many files the two requests pass, in ``database`` or in a scratch one."""
    script = settings.VAR_DIR / "house-script.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    rag = {
        **settings.RAG,
        "CHAT_MODEL": f"scripted:{script}",
        "EMBEDDING_MODEL": "use:multilingual-v3",
    }
    with override_settings(RAG=rag, ALLOWED_HOSTS=["*"]):
        if database:
            connection.settings_dict["NAME"] = database
            answer, retrieve = answer_paths()
        else:
            with scratch_database():
                answer, retrieve = answer_paths()
                # Threads of the program keep connections, which would keep the database.
                with connection.cursor() as cursor:
                    cursor.execute(_END_OTHERS)
    return [
        Measure("own files that an agent's answer passes", 154, len(answer), 100),
        Measure("own files that POST /api/rag/retrieve passes", 78, len(retrieve), 50),
    ]
