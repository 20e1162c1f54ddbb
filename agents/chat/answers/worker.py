"""Answer worker: generates one answer in this process, writes its events and its outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from agents import models
from agents.chat.agents.factory import agent_for
from agents.chat.answers.event_log import AnswerEventLog
from agents.chat.answers.lease import close_answer, renew_answer_lease
from agents.chat.answers.post_process import post_process
from agents.chat.answers.request import StartedAnswer
from agents.chat.history.history import history_before
from agents.core.agent import History
from agents.flows.runs.lease import HEARTBEAT_S
from agents.runtime.error_codes import error_code
from rag.core.errors import RAGError
from rag.services.threads import run_db


def answer_error(error: BaseException) -> dict[str, Any]:
    """Return how an error that is no RAGError is told: its kind, and nothing that it holds."""
    return RAGError(
        "The answer has a fault ({kind}).",
        hint="The server's log says where.",
        kind=type(error).__name__,
    ).as_dict()


def interrupted_error() -> dict[str, Any]:
    """Return how an answer is told whose process ends before it does."""
    return RAGError(
        "The server ended while the answer was being written.", hint="Ask again."
    ).as_dict()


_STATUS = models.Message.Status
# The answers that are written here, for those who follow or stop them.
ACTIVE_ANSWERS: dict[int, AnswerWorker] = {}


class AnswerWorker:
    """One answer at work, on the event loop that made it."""

    def __init__(self, chat: StartedAnswer) -> None:
        self.chat, self.log = chat, AnswerEventLog(chat.answer.pk)
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None
        self._agent = agent_for(agent=chat.order.agent, scope=chat.order.scope, stores=chat.stores)
        self._agent.page = chat.context
        self._is_stopped = self._is_answered = False
        ACTIVE_ANSWERS[chat.answer.pk] = self

    def stop(self) -> None:
        """Stop the answer and the model's work on it, from any thread."""
        self._is_stopped = True
        self._loop.call_soon_threadsafe(self._cancel)

    async def work(self) -> None:
        """Write the answer to its end; what failed is its last event and stands in its row."""
        self._task = asyncio.current_task()
        if self._is_stopped:
            self._cancel()
        watch = asyncio.create_task(self._watch())
        try:
            await self._answer()
        except RAGError as error:
            await self._failed(error.as_dict(), error_code(error))
        except asyncio.CancelledError:
            if not self._is_stopped:
                # The process ends: nobody else can go on with half an answer.
                await self._failed(interrupted_error(), "interrupted")
                raise
            if self._task:
                self._task.uncancel()
            await self._end("stopped", _STATUS.STOPPED, {})
        except BaseException as error:
            # A fault of ours: who follows is told that there is one; the task's end logs it.
            await self._failed(answer_error(error), "internal")
            raise
        finally:
            watch.cancel()
            ACTIVE_ANSWERS.pop(self.chat.answer.pk, None)
        if self._is_answered and self._agent.run:
            await post_process(message=self.chat.answer, run=self._agent.run)

    async def _answer(self) -> None:
        question = self.chat.question
        # The first question of a session has nothing before it that would have to be read.
        history: History = partial(history_before, message=question) if question.parent_id else ()
        started = time.perf_counter()
        end = await self._agent.answer(question.content, history, self.log.append)
        spent_ms = round((time.perf_counter() - started) * 1e3, 1)
        outcome = {"outcome": end.get("outcome", ""), "confidence": end.get("confidence")}
        run = self._agent.run
        ending = {**(run.usage_details if run else {}), "duration_ms": spent_ms}
        await self.log.append("usage", {**self._agent.usage, **ending})
        self._is_answered = True
        self.chat.answer.citations = self.log.transcript.citations
        await self._end(
            "done", _STATUS.DONE, outcome, query=end.get("rewritten_query", ""), **outcome
        )

    async def _failed(self, error: dict[str, Any], code: str) -> None:
        await self._end("error", _STATUS.ERROR, {"code": code, "error": error}, error=error)

    async def _end(self, kind: str, status: str, data: Mapping[str, Any], **values: Any) -> None:
        """Write the row and the last event in one transaction; nothing if it is another's."""
        transcript = self.log.transcript
        row = {
            "status": status,
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

    async def _watch(self) -> None:
        key_id = self.chat.order.scope.key_id
        while await asyncio.sleep(HEARTBEAT_S, True):
            if await run_db(renew_answer_lease, self.chat.answer, key_id) != _STATUS.RUNNING:
                # Stopped by another process, or with its key.
                self._is_stopped = True
                self._cancel()
                return

    def _cancel(self) -> None:
        if self._task and not self._task.done():
            self._task.cancel()
