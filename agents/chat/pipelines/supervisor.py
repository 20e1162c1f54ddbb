"""Supervisor pipeline: plan which agents are asked next, ask them, merge their answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agents.chat.pipelines.generate_answer import generate_step
from agents.chat.pipelines.rag import opening_stages, with_routing
from agents.chat.pipelines.react import BACKSTOP_TIMEOUT_S
from agents.chat.pipelines.react_think import calls_schema
from agents.chat.pipelines.supervisor_merge import ANSWERED, ask_agents_step, merge_step
from agents.core.agent import Member
from agents.core.model_options import model_options
from agents.core.parse_output import find_json_objects
from agents.core.pipeline import END, Branch, Pipeline, PipelineRun, PipelineState, Step
from agents.core.prompts import fill_prompt, language_of, prompt_file
from rag.core.errors import ProviderError
from rag.core.ports import ChatRequest
from rag.core.types import ChatReply, Message
from rag.services.search import lexical_overlap
from rag.stages.prompting.context import escape_data, quote_attribute


def supervisor_pipeline() -> Pipeline:
    """Return the steps in order; agents are asked in rounds until one has answered.

    All of it ends within the config's run_timeout_s, or the first steps' own times if longer.
    """
    steps = Pipeline(
        stages=(
            *opening_stages(),
            (Step("plan", plan_step, BACKSTOP_TIMEOUT_S),),
            (Step("ask", ask_agents_step, BACKSTOP_TIMEOUT_S),),
            (Step("merge", merge_step, BACKSTOP_TIMEOUT_S),),
            (Step("generate", generate_step, "generate_timeout_s"),),
        )
    )
    return (
        with_routing(steps)
        .with_branch("plan", Branch(_after_planning, ("ask", "merge")))
        .with_branch("ask", Branch(_after_asking, ("plan", "merge", END)))
        .with_branch("merge", Branch(lambda state: END, (END,)))
    )


def _after_planning(state: PipelineState) -> str:
    return "ask" if state.get("orders") else "merge"


def _after_asking(state: PipelineState) -> str:
    if state.get("outcome"):
        return END
    answers = state.get("answers") or []
    return "merge" if any(one["outcome"] in ANSWERED for one in answers) else "plan"


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
    n_iterations = state.get("n_iterations", 0)
    if not free or n_iterations >= run.max_iterations or not run.tools.deadline.remaining_s:
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
    return {"orders": orders, "n_iterations": n_iterations + 1, "cannot_plan": cannot_plan}


async def _by_model(
    state: PipelineState, free: Sequence[Member], run: PipelineRun
) -> list[Order] | None:
    """Return what the model chose, None where it chose nothing that can be read.

    Raises ProviderError.
    """
    names = [member.name for member in free]
    options = model_options(run.model_id, None, calls_schema("agent", names, question="string"))
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
    return await run.ask(replace(request, options={}))


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
    rules = prompt_file(f"supervisor_{language_of(state['query'])}")
    system = fill_prompt(rules, {"agent": json.dumps(free[0].name, ensure_ascii=False)})
    return [Message("system", system), Message("user", "\n".join(parts))]


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
