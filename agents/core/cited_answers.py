"""Answers that cite, in agents and flows: numbers of passages, verdicts, requests for a repair."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from agents.core.prompts import fill_prompt, language_of, prompt_file
from rag.core.hits import Hit
from rag.core.ports import ChatRequest
from rag.core.types import Message
from rag.stages.citing.verify import AnswerWriter, VerifiedAnswer
from rag.stages.prompting.context import Passage, escape_data, quote_attribute


def serialize_sources(passages: Sequence[Passage]) -> list[dict[str, Any]]:
    """Return what was found as everybody is told it, with the ids it is cited by."""
    return [{**passage.hit.as_dict(), "doc_id": passage.doc_id} for passage in passages]


def doc_id_of(number: int) -> str:
    """Return the id by which a model cites a document."""
    return f"doc_{number:02d}"


def number_of(doc_id: str) -> int:
    """Return the number in an id, 0 for an empty one."""
    return int(doc_id.removeprefix("doc_") or 0)


def passage_key(hit: Hit) -> tuple[Any, ...]:
    """Return what is the same for a passage, however often it is found."""
    if hit.chunk_id is not None:
        return hit.chunk_ids, hit.revision
    return hit.source, hit.external_id, hit.text


# Behind a mark of more than three digits no reader looks for a passage.
MAX_PASSAGES = 999


class RunPassages:
    """All passages of a run, each with the number that it keeps, whoever finds it again.

    ``has_searched`` tells a run that found nothing from one that looked nothing up.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Passage] = {}
        self._last = 0
        self.has_searched = False

    @property
    def all(self) -> list[Passage]:
        """Return the passages as they were found first."""
        return list(self._known.values())

    def number(self, hits: Iterable[Hit]) -> list[Passage]:
        """Return the passage of each hit; new ones get the next numbers, as far as there are."""
        self.has_searched = True
        found = []
        for hit in hits:
            key = _key(hit)
            if key not in self._known and self._last < MAX_PASSAGES:
                self._last += 1
                self._known[key] = Passage(doc_id_of(self._last), hit, hit.text)
            found += [self._known[key]] if key in self._known else []
        return found

    def doc_id(self, hit: Hit) -> str:
        """Return the id of what was found before, empty for what was not."""
        passage = self._known.get(_key(hit))
        return passage.doc_id if passage else ""

    def restore(self, stored: Iterable[Mapping[str, Any]]) -> None:
        """Take in passages as ``serialize_sources`` wrote them, with their numbers."""
        self.has_searched = True
        for one in stored:
            hit = Hit.from_dict(one)
            self._known.setdefault(_key(hit), Passage(one["doc_id"], hit, hit.text))
            self._last = max(self._last, number_of(one["doc_id"]))


def _key(hit: Hit) -> tuple[Any, ...]:
    return passage_key(hit if hit.chunk_id is not None else replace(hit, external_id=""))


def verdicts_of(answer: VerifiedAnswer) -> dict[str, Any]:
    """Return an answer as people are shown it, with what holds of each sentence, JSON-safe.

    Blanks around it are left out, as everywhere in a state.
    """
    n_before = len(answer.text) - len(answer.text.lstrip())
    grounding = answer.groundedness.as_dict()
    for one in grounding["statements"]:
        one["start"], one["end"] = one["start"] - n_before, one["end"] - n_before
    return {
        "answer": answer.text.strip(),
        "outcome": answer.outcome,
        "citations": [asdict(citation) for citation in answer.citations],
        "grounding": grounding,
    }


def repair_request(
    asked: ChatRequest, writer: AnswerWriter, query: str, said: str = ""
) -> ChatRequest:
    """Return the request for the same answer with quotes and statements that hold.

    ``said`` is what the model wrote where the answer was a part of it.
    """
    lines = [
        f"- doc_id={quote_attribute(one.doc_id)} quote={quote_attribute(one.quote)}"
        + (f" → {escape_data(one.found)}" if one.found else "")
        for one in writer.failed
    ]
    lines += [f"- {escape_data(writer.text[one.start : one.end])}" for one in writer.unheld]
    prompt = prompt_file(f"repair_citations_{language_of(query)}")
    text = fill_prompt(prompt, {"failed": "\n".join(lines)})
    messages = [*asked.messages, Message("assistant", said or writer.raw), Message("user", text)]
    # Without the question no model answers by quoting.
    return replace(asked, messages=messages, question="", tools=(), options={})
