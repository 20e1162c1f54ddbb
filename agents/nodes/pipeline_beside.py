"""Steps Recall and Page, side by side with Rewrite. In: a question. Out: what is known beside it.

What is remembered of the person, and what the page sends along; each within its own budget. Both
are data: a memory is no source, a document of the page can be cited.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.core.pipeline import PipelineRun, PipelineState, Step
from agents.core.remembered import SEMANTIC, Remembered, within
from agents.nodes.pipeline_data import language_of
from rag.core.errors import RAGError

_FACT = {"zh": "- 已知：{text}", "en": "- Known: {text}"}
_EPISODE = {
    "zh": "- {at}问过：{text}\n  当时回答：{answer}",
    "en": "- Asked on {at}: {text}\n  Answered then: {answer}",
}


def beside_steps() -> tuple[Step, ...]:
    """Return both steps; each is on where the state says so, and an answer goes on without it."""
    return (
        Step("recall", recall, "memory_timeout_s", _without_memories, _has_memory),
        Step("page", page, "page_timeout_s", _without_page, _has_page),
    )


async def recall(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``memories``, as lines; raise RAGError."""
    limit, count = run.config.memory_tokens, run.count_tokens
    lines = _lines(within(await run.recall(state["query"]), limit, count), state["query"])
    while lines and count("\n".join(lines)) > limit:
        lines.pop()
    return {"memories": "\n".join(lines)}


async def page(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``page_hits`` and ``page_context``; what could not be read is told."""
    read = await run.read_page(state["query"])
    for failure in read.failures:
        await run.emit("notice", {"step": "page", "error": failure.as_dict()})
    return {"page_hits": list(read.hits), "page_context": read.about}


def _lines(memories: Sequence[Remembered], query: str) -> list[str]:
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
