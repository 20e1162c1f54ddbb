"""Questions about oneself that documents do not answer. In: memories. Out: an answer from these."""

from __future__ import annotations

import re

from agents.core.pipeline import PipelineRun, PipelineState
from agents.core.prompt_file import prompt_file
from agents.flows.fill_prompt import fill_prompt
from agents.nodes.pipeline_data import data, language_of
from agents.nodes.pipeline_prompt import question_text, turns_before
from agents.nodes.pipeline_write import Teller, done, write
from rag.core.ports import ChatRequest
from rag.core.types import Message

_OF_ONESELF = re.compile(r"我|咱|上次|以前问|\b(?:i|my|mine|me|we|our|ours|us|last time)\b", re.I)


def is_remembered(state: PipelineState, run: PipelineRun) -> bool:
    """Return whether a question is about who asks, and there are memories and a model to tell."""
    has_memories = bool(state.get("memories")) and run.can_write
    return has_memories and bool(_OF_ONESELF.search(state["query"]))


async def from_memory(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return an answer without citations, whose outcome says where it is from."""
    prompt = prompt_file(f"remembered_{language_of(state['query'])}")
    system = fill_prompt(prompt, {"persona": data(run.prompt.strip())})
    messages = [
        Message("system", system), *turns_before(state, run),
        Message("user", question_text(state, "")),
    ]  # fmt: skip
    teller = Teller((), run, shows_marks=False)
    request = ChatRequest(
        messages, question=state["query"], temperature=run.temperature,
        max_tokens=run.config.max_tokens, timeout_s=run.config.generate_timeout_s,
    )  # fmt: skip
    await write(request, teller, run)
    return done(teller.text, "remembered")
