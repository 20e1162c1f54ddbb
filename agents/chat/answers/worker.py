"""Answer worker: generates one answer in this process, writes its events and its outcome."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from django.db import transaction
from django.utils.translation import gettext_noop

from agents import models
from agents.chat.agents.agent import agent_for, answer_ending
from agents.chat.answers.create import StartedAnswer
from agents.chat.answers.event_log import (
    AnswerEventLog,
    begin_again,
    close_answer,
    stored_answer_events,
)
from agents.chat.answers.post_process import post_process
from agents.chat.history.earlier_answers import earlier_answers
from agents.chat.history.history import history_before
from agents.chat.memory.agent_memory import memories_rest_on
from agents.core.agent import History
from agents.core.chat_events import LAST_KINDS, ChatEvent
from agents.runtime.worker import Worker
from rag.core.errors import RAGError
from rag.core.hits import hit_chunk_ids
from rag.services.threads import run_db

_STATUS = models.Message.Status


def _left_to_another(answer: models.Message) -> bool:
    with transaction.atomic():
        return begin_again(answer)


class AnswerWorker(Worker[ChatEvent]):
    """One answer at work, on the event loop that made it."""

    active: ClassVar[dict[int, AnswerWorker]] = {}
    log: AnswerEventLog
    name = "answer"
    fault = gettext_noop("The answer has a fault ({kind}).")
    poll_s = 0.2
    last_kinds = LAST_KINDS
    stored_events = staticmethod(stored_answer_events)

    def __init__(self, chat: StartedAnswer, after: int = 0) -> None:
        self.chat, self.log = chat, AnswerEventLog(chat.answer.pk, after)
        self._agent = agent_for(agent=chat.order.agent, scope=chat.order.scope, stores=chat.stores)
        self._agent.page = chat.context
        self._agent.earlier = partial(
            earlier_answers, message=chat.question, scope=chat.order.scope
        )
        self._is_answered = False
        super().__init__(chat.answer, chat.order.scope.key_id)

    async def work(self) -> None:
        """Write the answer to its end, and then what nobody waits for."""
        await super().work()
        if self._is_answered and self._agent.run:
            await post_process(message=self.chat.answer, run=self._agent.run)

    async def execute(self) -> None:
        """Let the agent answer."""
        if self.chat.hosts:
            note = RAGError(
                "What the sources say may be sent to {hosts}.",
                hint="This was consented to, or approved by an administrator.",
                hosts=", ".join(self.chat.hosts),
            )
            await self.log.append("notice", {"step": "outbound", "error": note.as_dict()})
        question = self.chat.question
        # The first question of a session has nothing before it that would have to be read.
        history: History = partial(history_before, message=question) if question.parent_id else ()
        started = time.perf_counter()
        end = await self._agent.answer(question.content, history, self.log.append)
        spent_ms = round((time.perf_counter() - started) * 1e3, 1)
        outcome = answer_ending(end)
        run = self._agent.run
        details = {**(run.usage_details if run else {}), "duration_ms": spent_ms}
        await self.log.append("usage", {**self._agent.usage, **details})
        self._is_answered = True
        self.chat.answer.citations = self.log.transcript.citations
        await self._end(
            "done", _STATUS.DONE, outcome, query=end.get("rewritten_query", ""), **outcome
        )

    async def failed(self, error: dict[str, Any], code: str) -> None:
        """Write that the answer has failed, with what there is of it."""
        await self._end("error", _STATUS.ERROR, {"code": code, "error": error}, error=error)

    async def cancelled(self) -> None:
        """Write that the answer was stopped, with what there is of it."""
        await self._end("stopped", _STATUS.STOPPED, {})

    async def interrupted(self) -> None:
        """Leave the answer to another process, which begins it again, or fail it."""
        if await run_db(_left_to_another, self.chat.answer):
            self.log.abandon()
            return
        error = RAGError("The server ended while the answer was being written.", hint="Ask again.")
        await self.failed(error.as_dict(), "interrupted")

    async def _end(self, kind: str, status: str, data: Mapping[str, Any], **values: Any) -> None:
        """Write the row and the last event in one transaction; nothing if it is another's."""
        transcript = self.log.transcript
        recalled = sorted(self._agent.recalled)
        told = await run_db(memories_rest_on, keys=recalled) if recalled else set()
        shown = (*transcript.sources, *transcript.citations)
        told |= {pk for one in shown for pk in hit_chunk_ids(one)}
        row = {
            "status": status,
            "chunk_ids": sorted(told.union(self.chat.answer.chunk_ids)),
            "content": transcript.text,
            "citations": transcript.citations,
            "sources": transcript.sources,
            "notices": transcript.notices,
            "timings_ms": transcript.timings_ms,
            "usage": dict(self._agent.usage),
            "model": self._agent.model_id,
            **values,
        }
        last = {
            **data,
            "message": str(self.chat.answer.key),
            "text": transcript.text,
            "citations": transcript.citations,
        }
        await self.log.close(kind, last, guard=partial(close_answer, self.chat.answer, row))
