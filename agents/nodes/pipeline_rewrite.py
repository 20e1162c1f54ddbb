"""Step Rewrite. In: a question and its history. Out: a question that stands alone.

Rules say whether a question leans on what came before; only then a model is asked, or, where the
model only quotes, a rule puts in what the question points to.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.core.pipeline import PipelineRun, PipelineState
from agents.core.rewriting import leans_on, read_rewritten, rewrite_messages
from agents.core.state import Turn
from rag.core.errors import ProviderError
from rag.core.ports import ChatRequest


async def rewrite(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``rewritten_query``, the question itself where it needs nothing.

    Raises ProviderError when the model fails or writes no question.
    """
    query, history = state["query"], state.get("history") or []
    if not leans_on(query, history):
        return {"rewritten_query": query}
    if run.can_write:
        rewritten, method = await _by_model(query, history, run), "model"
    else:
        before = next(turn["content"] for turn in reversed(history) if turn["role"] == "user")
        rewritten, method = await run.join_question(query, before)
    await run.emit("rewrite", {"query": rewritten, "original": query, "method": method})
    return {"rewritten_query": rewritten}


async def _by_model(query: str, history: Sequence[Turn], run: PipelineRun) -> str:
    shown = history[-2 * run.config.history_turns :] if run.config.history_turns else history[-2:]
    request = ChatRequest(
        rewrite_messages(query, shown), question=query, temperature=0.0, max_tokens=512,
        timeout_s=run.config.rewrite_timeout_s,
    )  # fmt: skip
    text = read_rewritten((await run.ask(request)).text)
    if not text:
        raise ProviderError(
            "The model {model} wrote no question that stands alone.", model=run.model_id
        )
    return text
