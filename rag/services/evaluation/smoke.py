"""Smoke test of a chat model: the demo's questions asked one by one, each answer as people get it.

For whoever chooses a model: what it cites, what its sources say of it, and how long it takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from asgiref.sync import async_to_sync

from rag import models
from rag.core.access import Scope
from rag.core.errors import ConfigurationError, ProviderError
from rag.core.types import HOLDING_VERDICTS, Answer, ChatReply
from rag.services.answers import stream_ask
from rag.services.wiring import registry
from rag.stages.text.terms import is_han

VERDICTS = ("grounded", "partly", "ungrounded", "not_found")
# A service that fails so often in a row is down, and the rest would say the same.
MAX_FAILURES = 3


@dataclass(slots=True)
class SmokeAnswer:
    """One question and what came of it. ``kind`` answered: the documents hold the answer;
    off_topic: they are about other things; absent: they are about it and do not say it."""

    question: str
    kind: str
    answer: Answer | None = None
    error: ProviderError | None = None
    first_s: float | None = None
    total_s: float = 0.0

    @property
    def language(self) -> str:
        """Return zh or en."""
        return "zh" if is_han(self.question) else "en"

    @property
    def verdict(self) -> str:
        """Return the verdict of the whole answer; ``failed`` without one."""
        return self.answer.groundedness.verdict if self.answer else "failed"

    @property
    def is_refused(self) -> bool:
        """Return whether the answer says that it is not there."""
        return self.answer is not None and self.answer.outcome == "not_found"

    @property
    def n_held(self) -> int:
        """Return how many citations hold."""
        found = self.answer.citations if self.answer else ()
        return sum(one.verdict in HOLDING_VERDICTS for one in found)


@dataclass(frozen=True, slots=True)
class SmokeSummary:
    """Figures of some answers; pairs are (how many of them, of how many), seconds (p50, p95)."""

    verdicts: Mapping[str, int]
    citations: tuple[int, int]
    statements: tuple[int, int]
    off_topic_refused: tuple[int, int]
    absent_told: tuple[int, int]
    answered_refused: tuple[int, int]
    first_s: tuple[float, float] | None = None
    total_s: tuple[float, float] | None = None


def writing_model(*, model: str = "") -> str:
    """Return the id of a model, empty the configured one; ConfigurationError if it only quotes."""
    found = registry.chat_model(model).id
    if not registry.can_write(model_id=found):
        raise ConfigurationError(
            "No chat model is configured.",
            hint="Set RAG_CHAT_MODEL=openai_compatible:NAME and RAG_OPENAI_BASE_URL.",
        )
    return found


def smoke_model(
    *,
    questions: Sequence[Mapping[str, Any]],
    store: models.Store,
    model: str = "",
    on_answered: Callable[[SmokeAnswer], None] = lambda answer: None,
) -> list[SmokeAnswer]:
    """Return an answer for each question by ``model`` (empty: the configured one).

    An answer that fails is kept with its error; after three in a row that error is raised.
    """
    answers, n_failed = list[SmokeAnswer](), 0
    for row in questions:
        told = SmokeAnswer(row["question"], row["kind"])
        _ask(told, store, model)
        answers.append(told)
        on_answered(told)
        n_failed = n_failed + 1 if told.error else 0
        if told.error and n_failed == MAX_FAILURES:
            raise told.error
    return answers


def _ask(told: SmokeAnswer, store: models.Store, model: str) -> None:
    async def listen() -> None:
        pieces = stream_ask(
            question=told.question, scope=Scope.operator(), stores=[store], model=model
        )
        async for piece in pieces:
            if isinstance(piece, Answer):
                told.answer = piece
            elif isinstance(piece, ChatReply) and told.first_s is None and piece.text.strip():
                told.first_s = time.perf_counter() - started

    started = time.perf_counter()
    try:
        async_to_sync(listen)()
    except ProviderError as error:
        told.error = error
    told.total_s = time.perf_counter() - started


def summarize_smoke(*, answers: Sequence[SmokeAnswer]) -> SmokeSummary:
    """Return the figures of some answers."""
    given = [one.answer for one in answers if one.answer]
    return SmokeSummary(
        {name: sum(one.verdict == name for one in answers) for name in (*VERDICTS, "failed")},
        (sum(one.n_held for one in answers), sum(len(one.citations) for one in given)),
        (
            sum(one.groundedness.n_found for one in given),
            sum(len(one.groundedness.statements) for one in given),
        ),
        _share(answers, "off_topic", lambda one: one.is_refused),
        _share(
            answers, "absent", lambda one: one.is_refused or bool(one.answer and one.answer.notice)
        ),
        _share(answers, "answered", lambda one: one.is_refused),
        _percentiles([one.first_s for one in answers if one.first_s is not None]),
        _percentiles([one.total_s for one in answers if one.answer]),
    )


def _share(
    answers: Sequence[SmokeAnswer], kind: str, holds: Callable[[SmokeAnswer], bool]
) -> tuple[int, int]:
    asked = [one for one in answers if one.kind == kind and one.answer]
    return sum(map(holds, asked)), len(asked)


def _percentiles(seconds: Sequence[float]) -> tuple[float, float] | None:
    if not seconds:
        return None
    return float(np.percentile(seconds, 50)), float(np.percentile(seconds, 95))
