"""Step Merge of a supervisor. In: answers of agents. Out: one answer, its citations numbered anew.

By the model, whose quotes are checked again; without one the answers stand one after another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from agents.core.pipeline import PipelineRun, PipelineState
from agents.core.prompt_file import prompt_file
from agents.flows.fill_prompt import fill_prompt
from agents.nodes.pipeline_data import attribute, data, language_of
from agents.nodes.pipeline_generate import request_of, said
from agents.nodes.pipeline_prompt import question_text, turns_before
from agents.nodes.pipeline_texts import unavailable_text, unknown_text
from agents.nodes.pipeline_write import Teller, settle, write
from agents.nodes.react_documents import place_of, shelve, sources_of
from agents.nodes.react_texts import nobody_text
from agents.nodes.supervisor_ask import ANSWERED
from rag.core.errors import ProviderError
from rag.core.hits import Hit
from rag.core.types import Citation, Message
from rag.stages.context import Passage

_MARK = re.compile(r"\[(\d{1,3})\]")
_FIELDS = tuple(field.name for field in fields(Citation))


async def merge(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``final_answer``, ``citations`` and ``outcome`` of all that was answered."""
    answers = state.get("answers") or []
    good = [one for one in answers if one["outcome"] in ANSWERED]
    if not good:
        return await _without_answer(state, answers, run)
    passages, documents = _gathered(good, run, state["query"])
    await run.emit("sources", {"sources": sources_of(passages)})
    numbered = _numbered(good, passages)
    if len(good) == 1 or not run.can_write:
        return await _in_a_row(numbered, run)
    request = request_of(_messages(state, numbered, documents, run), state["query"], passages, run)
    teller = Teller(passages, run)
    try:
        await write(request, teller, run)
    except ProviderError as error:
        # What the agents said is there, whoever cannot merge it.
        await run.emit("notice", {"step": "merge", "error": error.as_dict()})
        await teller.take_back()
        return await _in_a_row(numbered, run)
    return await settle(request, teller, state["query"], run)


async def _without_answer(
    state: PipelineState, answers: Sequence[Mapping[str, Any]], run: PipelineRun
) -> PipelineState:
    query = state["query"]
    if not answers:
        return await said(nobody_text(query), "unknown", run)
    errors = [one["error"] for one in answers if one["error"] is not None]
    if len(errors) == len(answers):
        # Nobody could so much as look: that is a failure, and no answer.
        raise errors[-1]
    looked_at = [Hit.from_dict(one) for answer in answers for one in answer["sources"]]
    if looked_at or any(one["outcome"] == "unknown" for one in answers):
        return await said(unknown_text(query, looked_at), "unknown", run)
    return await said(unavailable_text(query), "unavailable", run)


def _gathered(
    answers: Sequence[Mapping[str, Any]], run: PipelineRun, query: str
) -> tuple[list[Passage], str]:
    """Return the passages that the answers cite, once each, and as documents for the model."""
    hits = []
    for answer in answers:
        cited = {citation["doc_id"] for citation in answer["citations"]}
        hits += [Hit.from_dict(one) for one in answer["sources"] if one.get("doc_id") in cited]
    return shelve([], hits, run, query)


def _numbered(
    answers: Sequence[Mapping[str, Any]], passages: Sequence[Passage]
) -> list[dict[str, Any]]:
    """Return the answers with their marks and citations numbered through all of them."""
    ids = {place_of(passage.hit): passage.doc_id for passage in passages}
    found, n = [], 0
    for answer in answers:
        new_ids = {
            str(one.get("doc_id")): ids.get(place_of(Hit.from_dict(one)), "")
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

        text = _MARK.sub(renumbered, answer["text"])
        found.append({"agent": answer["agent"], "text": text, "citations": citations,
                      "outcome": answer["outcome"]})  # fmt: skip
    return found


async def _in_a_row(answers: Sequence[Mapping[str, Any]], run: PipelineRun) -> PipelineState:
    """Tell the answers one after another, each as its agent gave it."""
    citations: list[dict[str, Any]] = []
    texts = []
    for answer in answers:
        texts.append(answer["text"].strip() if len(answers) == 1 else
                     f"**{answer['agent']}**\n\n{answer['text'].strip()}")  # fmt: skip
        await run.emit("delta", {"text": ("\n\n" if len(texts) > 1 else "") + texts[-1]})
        for citation in answer["citations"]:
            kept = {name: citation[name] for name in _FIELDS if name in citation}
            citations.append(kept)
            await run.emit("citation", kept)
    is_partial = any(answer["outcome"] == "partial" for answer in answers)
    return {
        "final_answer": "\n\n".join(texts), "citations": citations,
        "outcome": "partial" if is_partial else "answered",
    }  # fmt: skip


def _messages(
    state: PipelineState, answers: Sequence[Mapping[str, Any]], documents: str, run: PipelineRun
) -> list[Message]:
    language = language_of(state["query"])
    rules = "cite" if run.config.enable_source_citation else "no_cite"
    system = fill_prompt(
        prompt_file(f"supervisor_merge_{language}"),
        {"persona": data(run.prompt.strip()),
         "citation_rules": prompt_file(f"{rules}_{language}").strip()},
    )  # fmt: skip
    told = "\n".join(
        f"<answer agent={attribute(one['agent'])}>\n{data(_with_ids(one))}\n</answer>"
        for one in answers
    )
    asked = question_text(state, f"{documents}\n<answers>\n{told}\n</answers>".strip())
    return [Message("system", system), *turns_before(state, run), Message("user", asked)]


def _with_ids(answer: Mapping[str, Any]) -> str:
    """Return an answer whose marks name documents, as the model shall cite them."""
    ids = {citation["number"]: citation["doc_id"] for citation in answer["citations"]}
    return _MARK.sub(
        lambda mark: f"[{ids[int(mark[1])]}]" if int(mark[1]) in ids else mark[0], answer["text"]
    )
