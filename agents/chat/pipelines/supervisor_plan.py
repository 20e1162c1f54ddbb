"""Step Plan of a supervisor: which agents are asked next, and what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.chat.pipelines.prompt import escape_data, language_of, quote_attribute
from agents.core.agent import Member
from agents.core.model_options import model_options
from agents.core.parse_output import find_json_objects
from agents.core.pipeline import PipelineRun, PipelineState
from agents.core.prompts import prompt_file
from rag.core.errors import ProviderError
from rag.core.ports import ChatRequest
from rag.core.types import ChatReply, Message
from rag.services.search import lexical_overlap

MAX_AT_ONCE, MAX_QUESTION = 4, 2000
_SHOWN = 1200
# Of the time that is left so much is for choosing: who is chosen must answer in the rest.
PLAN_SHARE = 0.3
# What a server answers with that does not know the form of an answer.
_REFUSED = (400, 422)
Order = dict[str, str]


async def plan_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``orders``: agents that were not asked yet, each with its question; none: it is over.

    The model chooses; without one, or when it fails, the words that agents' descriptions share
    with the question do.
    """
    asked = {one["agent"] for one in state.get("answers") or []}
    free = [member for member in run.team.members if member.name not in asked]
    n_rounds = state.get("n_rounds", 0)
    if not free or n_rounds >= run.max_iterations or not run.tools.deadline.remaining_s:
        return {"orders": []}
    question = state.get("rewritten_query") or state["query"]
    orders: list[Order] | None = None
    # A model that failed is not waited for in each round.
    cannot_plan = state.get("cannot_plan", False)
    if run.can_write and len(run.team.members) > 1 and not cannot_plan:
        try:
            orders = await _by_model(state, free, run)
        except ProviderError as error:
            cannot_plan = True
            await run.emit("notice", {"step": "plan", "error": error.as_dict()})
    if orders is None:
        orders = [{"agent": _by_words(question, free), "question": question}]
    orders = orders[:MAX_AT_ONCE]
    return {"orders": orders, "n_rounds": n_rounds + 1, "cannot_plan": cannot_plan}


async def _by_model(
    state: PipelineState, free: Sequence[Member], run: PipelineRun
) -> list[Order] | None:
    """Return what the model chose, None where it chose nothing that can be read.

    Raises ProviderError.
    """
    names = [member.name for member in free]
    options = model_options(run.model_id, None, _form(names))
    time_s = min(run.config.rerank_timeout_s, PLAN_SHARE * run.tools.deadline.remaining_s)
    request = ChatRequest(
        _messages(state, free),
        question=state["query"],
        temperature=0.0,
        max_tokens=1024,
        timeout_s=time_s,
        options=options,
    )
    reply = await _asked(request, run)
    for found in find_json_objects(reply.text):
        calls = found.get("calls")
        if isinstance(calls, list):
            read = [_order(call, names, state["query"]) for call in calls]
            orders = {order["agent"]: order for order in read if order}
            # An agent that does not exist is no choice; that none fits is one.
            return list(orders.values()) if orders or not calls else None
    return None


async def _asked(request: ChatRequest, run: PipelineRun) -> ChatReply:
    try:
        return await run.ask(request)
    except ProviderError as error:
        if error.params.get("status") not in _REFUSED or not request.options:
            raise
    plain = ChatRequest(
        request.messages,
        question=request.question,
        temperature=0.0,
        max_tokens=request.max_tokens,
        timeout_s=request.timeout_s,
    )
    return await run.ask(plain)


def _messages(state: PipelineState, free: Sequence[Member]) -> list[Message]:
    told = "\n".join(
        f"<agent name={quote_attribute(member.name)} role={quote_attribute(member.role)}>"
        f"{escape_data(member.description)}</agent>"
        for member in free
    )
    turns = "\n".join(
        f'<turn role="{turn["role"]}">{escape_data(turn["content"][:_SHOWN])}</turn>'
        for turn in (state.get("history") or [])[-6:]
    )
    answers = "\n".join(
        f"<answer agent={quote_attribute(one['agent'])}>"
        f"{escape_data(one['text'][:_SHOWN])}</answer>"
        for one in state.get("answers") or []
    )
    parts = [f"<agents>\n{told}\n</agents>"]
    parts += [f"<conversation>\n{turns}\n</conversation>"] if turns else []
    parts += [f"<answers>\n{answers}\n</answers>"] if answers else []
    beside = {"memories": state.get("memories"), "page_context": state.get("page_context")}
    parts += [f"<{name}>\n{escape_data(text)}\n</{name}>" for name, text in beside.items() if text]
    parts.append(
        f"<question>{escape_data(state.get('rewritten_query') or state['query'])}</question>"
    )
    system = prompt_file(f"supervisor_{language_of(state['query'])}")
    return [Message("system", system), Message("user", "\n".join(parts))]


def _form(names: Sequence[str]) -> dict[str, Any]:
    call = {
        "type": "object",
        "properties": {
            "agent": {"type": "string", "enum": list(names)},
            "question": {"type": "string"},
        },
        "required": ["agent", "question"],
    }
    return {
        "type": "object",
        "properties": {"calls": {"type": "array", "items": call}},
        "required": ["calls"],
    }


def _order(call: Any, names: Sequence[str], query: str) -> Order | None:
    if not isinstance(call, dict) or call.get("agent") not in names:
        return None
    question = call.get("question")
    text = question.strip() if isinstance(question, str) else ""
    return {"agent": call["agent"], "question": text[:MAX_QUESTION] or query}


def _by_words(question: str, free: Sequence[Member]) -> str:
    """Return the agent whose description shares most with the question, the first of equals."""
    shares = [lexical_overlap(query=question, text=f"{one.name} {one.description}") for one in free]
    return free[shares.index(max(shares))].name
