"""Steps Recall, Page and LoadHistory: memories, page content and earlier turns for one question.

Recall and Page run in parallel with Rewrite; an answer goes on without either.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.chat.pipelines.prompt import language_of
from agents.core.pipeline import PipelineRun, PipelineState, Step
from agents.core.recalled_memory import SEMANTIC, RecalledMemory, within_budget
from rag.core.errors import RAGError

_FACT = {"zh": "- 已知：{text}", "en": "- Known: {text}"}


_EPISODE = {
    "zh": "- {at}问过：{text}\n  当时回答：{answer}",
    "en": "- Asked on {at}: {text}\n  Answered then: {answer}",
}


def parallel_steps() -> tuple[Step, ...]:
    """Return both steps; each is on where the state says so, and an answer goes on without it."""
    return (
        Step("recall", recall_step, "memory_timeout_s", _without_memories, _has_memory),
        Step("page", page_step, "page_timeout_s", _without_page, _has_page),
    )


async def recall_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``memories``, as lines; raise RAGError."""
    limit, count = run.config.memory_tokens, run.count_tokens
    lines = _lines(within_budget(await run.recall(state["query"]), limit, count), state["query"])
    while lines and count("\n".join(lines)) > limit:
        lines.pop()
    return {"memories": "\n".join(lines)}


async def page_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``page_hits`` and ``page_context``; what could not be read is told."""
    read = await run.read_page(state["query"])
    for failure in read.failures:
        await run.emit("notice", {"step": "page", "error": failure.as_dict()})
    return {"page_hits": list(read.hits), "page_context": read.about}


async def load_history_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``history`` and ``summary``."""
    history, summary = await run.load_history()
    return {"history": history, "summary": summary}


def _lines(memories: Sequence[RecalledMemory], query: str) -> list[str]:
    language = language_of(query)
    lines = []
    for one in memories:
        form = _FACT if one.kind == SEMANTIC else _EPISODE
        at = one.at.date().isoformat() if one.at else ""
        text, answer = (" ".join(words.split()) for words in (one.text, one.answer))
        lines.append(form[language].format(text=text, answer=answer, at=at))
    return lines


def _has_memory(state: PipelineState) -> bool:
    return bool(state.get("has_memory"))


def _has_page(state: PipelineState) -> bool:
    return bool(state.get("has_page"))


def _without_memories(state: PipelineState, error: RAGError) -> PipelineState:
    return {"memories": ""}


def _without_page(state: PipelineState, error: RAGError) -> PipelineState:
    return {"page_hits": [], "page_context": ""}
