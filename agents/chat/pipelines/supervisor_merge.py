"""Steps Ask and Merge of a supervisor: agents asked concurrently, one answer of theirs.

The model merges and its quotes are verified again; without a model the answers stand one after
another, their citations renumbered.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from agents.chat.pipelines.generate_answer import (
    AnswerStream,
    agent_messages,
    agent_request,
    emit_answer,
    number_documents,
)
from agents.core.agent import RAGAnswer
from agents.core.canned_texts import canned_text, unknown_text
from agents.core.cited_answers import doc_id_of, passage_key, serialize_sources
from agents.core.gather import gather_or_cancel
from agents.core.page_context import PageRead
from agents.core.pipeline import PipelineRun, PipelineState
from rag.core.errors import ProviderError, ProviderTimeoutError, RAGError
from rag.core.hits import Hit
from rag.core.types import Citation, Statement
from rag.stages.prompting.context import Passage, escape_data, quote_attribute

# Of the time that is left several agents have so much: one answer is made of theirs in the rest.
SHARE_OF_SEVERAL = 0.75
# Outcomes after which nobody else needs to be asked.
ANSWERED = frozenset({"answered", "partial", "remembered", "small_talk", "about_store", "uncited"})
# What of one agent's events is told as the supervisor's own when nobody else is asked.
_PASSED_ON = frozenset({"delta", "citation", "replace", "sources"})
_TOLD = frozenset({"tool_call", "tool_result", "agent_call", "agent_result", "notice"})
_SUMMARY_CHARACTERS = 200


async def ask_agents_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return all ``answers`` so far; where one agent alone answered, that is the final answer."""
    before, orders = list(state.get("answers") or []), state["orders"]
    is_alone = len(orders) == 1 and not any(one["outcome"] in ANSWERED for one in before)
    found = await gather_or_cancel(
        _answer(order, f"{state['n_iterations']}.{number}", is_alone, state, run)
        for number, order in enumerate(orders, start=1)
    )
    update: PipelineState = {"answers": [*before, *found]}
    if is_alone and found[0]["outcome"] in ANSWERED:
        (one,) = found
        return {
            **update,
            "final_answer": one["text"],
            "citations": list(one["citations"]),
            "outcome": one["outcome"],
            "confidence": one["confidence"],
            "grounding": one["grounding"],
        }
    if is_alone and found[0]["has_told"]:
        # What was passed on was no answer: others are asked, or it is said in the end.
        await run.emit("replace", {"text": "", "citations": [], "withdrawn": True})
    return update


def _page_of(state: PipelineState) -> PageRead:
    return PageRead(state.get("page_hits") or (), state.get("page_context") or "")


async def _answer(
    order: Mapping[str, str], id: str, is_alone: bool, state: PipelineState, run: PipelineRun
) -> dict[str, Any]:
    name, started = order["agent"], time.perf_counter()
    has_told = False
    error: RAGError | None = None

    async def pass_on(kind: str, data: Mapping[str, Any]) -> None:
        nonlocal has_told
        if is_alone and kind in _PASSED_ON:
            has_told = has_told or kind == "delta"
            await run.emit(kind, data)
        elif kind in _TOLD:
            await run.emit(kind, {**data, "by": data.get("by") or name})

    await run.emit("agent_call", {"id": id, "agent": name, "question": order["question"]})
    reply = RAGAnswer("", [], [], "failed")
    share = SHARE_OF_SEVERAL if len(state["orders"]) > 1 else 1.0
    try:
        async with asyncio.timeout(share * run.tools.deadline.remaining_s):
            history, page = state.get("history") or [], _page_of(state)
            reply = await run.team.ask(name, order["question"], history, page, pass_on)
    except TimeoutError:
        error = ProviderTimeoutError(
            "The agent “{name}” did not answer in time.",
            hint="Allow more by run_timeout_s.",
            name=name,
        )
    except RAGError as raised:
        error = raised
    told: dict[str, Any] = {
        "id": id,
        "agent": name,
        "outcome": reply.outcome,
        "is_error": error is not None,
        "text": reply.text[:_SUMMARY_CHARACTERS],
        "n_citations": len(reply.citations),
        "duration_ms": round((time.perf_counter() - started) * 1e3, 1),
    }
    await run.emit("agent_result", told | ({"error": error.as_dict()} if error else {}))
    answer = {name: getattr(reply, name) for name in _TOLD_FIELDS}
    return {**order, **answer, "has_told": has_told, "error": error}


_TOLD_FIELDS = ("text", "citations", "sources", "outcome", "confidence", "grounding")
_MARK = re.compile(r"\[(\d{1,3})\]")
_FIELDS = tuple(field.name for field in fields(Citation))


async def merge_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``final_answer``, ``citations`` and ``outcome`` of all that was answered.

    A model that has not merged when the run's time is over is not waited for.
    """
    answers = state.get("answers") or []
    good = [one for one in answers if one["outcome"] in ANSWERED]
    if not good:
        return await _without_answer(state, answers, run)
    passages, documents = _gathered(good, run, state["query"])
    await run.emit("sources", {"sources": serialize_sources(passages)})
    numbered = _numbered(good, passages)
    if len(good) == 1 or not run.can_write or not _left_s(run):
        return await _in_a_row(numbered, run)
    told = "\n".join(
        f"<answer agent={quote_attribute(one['agent'])}>\n{escape_data(_with_ids(one))}\n</answer>"
        for one in numbered
    )
    shown = f"{documents}\n<answers>\n{told}\n</answers>".strip()
    messages = agent_messages("supervisor_merge", state, shown, run)
    request = agent_request(messages, state["query"], passages, run)
    asked = state.get("rewritten_query") or state["query"]
    answer_stream, left_s = AnswerStream(run, passages, question=asked), _left_s(run)
    try:
        async with asyncio.timeout(left_s):
            await answer_stream.write(replace(request, timeout_s=left_s))
    except (ProviderError, TimeoutError) as raised:
        # What the agents said is there, whoever cannot merge it.
        error = raised if isinstance(raised, ProviderError) else _late(run.model_id, left_s)
        await run.emit("notice", {"step": "merge", "error": error.as_dict()})
        await answer_stream.retract()
        return await _in_a_row(numbered, run)
    # A repair has what is left of the time; what was written stands without it.
    return await answer_stream.conclude(request, state["query"], left_s=_left_s(run))


def _late(model_id: str, timeout_s: float) -> ProviderTimeoutError:
    return ProviderTimeoutError(
        "The model {model} did not answer within {timeout_s} s.",
        hint="Try again, or choose a faster model.",
        model=model_id,
        timeout_s=f"{timeout_s:.3g}",
    )


def _left_s(run: PipelineRun) -> float:
    return min(run.config.generate_timeout_s, run.tools.deadline.remaining_s)


async def _without_answer(
    state: PipelineState, answers: Sequence[Mapping[str, Any]], run: PipelineRun
) -> PipelineState:
    query = state["query"]
    if not answers and not run.tools.deadline.remaining_s:
        raise ProviderTimeoutError(
            "There was no time left to ask an agent.", hint="Allow more by run_timeout_s."
        )
    if not answers:
        return await emit_answer(canned_text("no agent", query), "not_found", run)
    errors = [one["error"] for one in answers if one["error"] is not None]
    if len(errors) == len(answers):
        # Nobody could so much as look: that is a failure, and no answer.
        raise errors[-1]
    looked_at = [Hit.from_dict(one) for answer in answers for one in answer["sources"]]
    if looked_at or any(one["outcome"] == "not_found" for one in answers):
        return await emit_answer(unknown_text(query, looked_at), "not_found", run)
    return await emit_answer(canned_text("unavailable", query), "unavailable", run)


def _gathered(
    answers: Sequence[Mapping[str, Any]], run: PipelineRun, query: str
) -> tuple[list[Passage], str]:
    """Return the passages that the answers cite, once each, and as documents for the model.

    Those beyond its budget are among the passages all the same: they are cited.
    """
    hits: dict[Any, Hit] = {}
    for answer in answers:
        cited = {citation["doc_id"] for citation in answer["citations"]}
        found = [Hit.from_dict(one) for one in answer["sources"] if one.get("doc_id") in cited]
        hits |= {passage_key(hit): hit for hit in found if passage_key(hit) not in hits}
    passages, documents = number_documents([], list(hits.values()), run, query)
    shown = {passage_key(passage.hit) for passage in passages}
    rest = [hit for place, hit in hits.items() if place not in shown]
    for number, hit in enumerate(rest, start=len(passages) + 1):
        passages.append(Passage(doc_id_of(number), hit, hit.text))
    return passages, documents


def _numbered(
    answers: Sequence[Mapping[str, Any]], passages: Sequence[Passage]
) -> list[dict[str, Any]]:
    """Return the answers with their marks and citations numbered through all of them."""
    ids = {passage_key(passage.hit): passage.doc_id for passage in passages}
    found, n = [], 0
    for answer in answers:
        new_ids = {
            str(one.get("doc_id")): ids.get(passage_key(Hit.from_dict(one)), "")
            for one in answer["sources"]
        }
        numbers: dict[int, int] = {}
        citations = []
        for citation in answer["citations"]:
            n += 1
            numbers[citation["number"]] = n
            doc_id = new_ids.get(citation["doc_id"]) or citation["doc_id"]
            citations.append({**citation, "number": n, "doc_id": doc_id})

        def renumbered(mark: re.Match[str], numbers: Mapping[int, int] = numbers) -> str:
            number = numbers.get(int(mark[1]))
            return mark[0] if number is None else f"[{number}]"

        text, statements = _remarked(answer, renumbered, numbers)
        kept = {name: answer[name] for name in ("agent", "outcome", "confidence")}
        found.append({**kept, "text": text, "citations": citations, "statements": statements})
    return found


def _remarked(
    answer: Mapping[str, Any], mark: Callable[[re.Match[str]], str], numbers: Mapping[int, int]
) -> tuple[str, list[Statement]]:
    """Return an answer's text with other marks, and its statements where they now stand."""
    statements = [
        Statement(**{**one, "citations": tuple(one["citations"])})
        for one in answer["grounding"].get("statements", ())
    ]
    # How far what stands behind a mark has moved.
    text, at, moved = "", 0, list[tuple[int, int]]()
    for match in _MARK.finditer(answer["text"]):
        text += answer["text"][at : match.start()] + mark(match)
        at = match.end()
        moved.append((at, len(text) - at))
    text += answer["text"][at:]

    def place(position: int) -> int:
        return position + next((by for end, by in reversed(moved) if end <= position), 0)

    return text, [
        replace(
            one,
            start=place(one.start),
            end=place(one.end),
            citations=tuple(numbers.get(number, number) for number in one.citations),
        )
        for one in statements
    ]


async def _in_a_row(answers: Sequence[Mapping[str, Any]], run: PipelineRun) -> PipelineState:
    """Tell the answers one after another, each as its agent gave it."""
    answer_stream = AnswerStream(run)
    for number, answer in enumerate(answers):
        head = "\n\n" if number else ""
        if len(answers) > 1:
            head += f"**{answer['agent']}**\n\n"
        text = answer["text"].lstrip()
        by = len(head) - (len(answer["text"]) - len(text))
        given = [
            Citation(**{name: one[name] for name in _FIELDS if name in one})
            for one in answer["citations"]
        ]
        statements = [
            replace(one, start=one.start + by, end=one.end + by) for one in answer["statements"]
        ]
        await answer_stream.adopt(f"{head}{text.rstrip()}", given, statements)
    if len(answers) == 1:
        (one,) = answers
        return {**answer_stream.state(one["outcome"]), "confidence": one["confidence"]}
    outcomes = {answer["outcome"] for answer in answers}
    return answer_stream.state("partial" if "partial" in outcomes else "answered")


def _with_ids(answer: Mapping[str, Any]) -> str:
    """Return an answer whose marks name documents, as the model shall cite them."""
    ids = {citation["number"]: citation["doc_id"] for citation in answer["citations"]}
    return _MARK.sub(
        lambda mark: f"[{ids[int(mark[1])]}]" if int(mark[1]) in ids else mark[0], answer["text"]
    )
