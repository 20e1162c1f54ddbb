"""Redaction of runs: what deleted or hidden passages said goes from all that a run holds.

Hits lose their text wherever they lie in nested JSON. Texts that models wrote are judged against
the run's passages once more, and lose the sentences that rest on what is gone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from agents import models
from agents.runtime.redaction import GONE, LostWords, without_statements, without_text
from agents.runtime.scopes import are_there, readable_chunks, run_scope
from rag.core.access import Scope
from rag.core.hits import Hit, hit_chunk_ids
from rag.stages.citing.verify import AnswerWriter
from rag.stages.prompting.context import Passage

BATCH = 100
_EMPTY = {"content": "", "highlights": [], "is_gone": True}
_NOTHING_QUOTED = {"quote": "", "found": "", "claim": "", "is_gone": True}
# A shorter text claims nothing that could be judged: it goes where a passage that is gone has it.
_SHORT = 24
_NUMBER = re.compile(r"\d[\d.,]*\d|\d")


class RunRedactor:
    """What of one run's passages is gone, and what everything else is without it.

    ``passages`` are those of the run, ``readable`` the chunks that are not gone, ``own`` texts of
    the person, which stay. ``rests_on`` is all that it does: a replay has words of passages that
    only the run before it found.
    """

    def __init__(
        self,
        passages: Sequence[Mapping[str, Any]],
        readable: frozenset[int],
        own: Sequence[str],
        rests_on: Iterable[int] = (),
    ) -> None:
        ids = {pk for one in passages for pk in hit_chunk_ids(one)}
        lost = [one for one in passages if not readable.issuperset(hit_chunk_ids(one))]
        gone = frozenset(one["doc_id"] for one in lost)
        self.is_reduced = bool(gone) or not readable.issuperset(rests_on)
        self._chunks = frozenset(ids.union(rests_on) - readable)
        self._own, self._given = frozenset(own), passages
        self._kept_ids = {one["doc_id"] for one in passages} - gone
        self._gone = gone
        self._left = [one for one in passages if one["doc_id"] not in gone]
        said = {one["doc_id"]: str(one.get("content") or "") for one in passages}
        texts = [said[one] for one in gone]
        self._words = LostWords(texts, [*(said[one] for one in self._kept_ids), *own])
        self._numbers = {one for text in texts for one in _NUMBER.findall(text)}
        self._texts = [text.casefold() for text in texts]

    def answer(self, told: Mapping[str, Any], name: str = "answer") -> dict[str, Any]:
        """Return a text that was judged, under ``name``, with its citations and verdicts."""
        if not self.is_reduced:
            return dict(told)
        citations = list(told.get("citations") or [])
        grounding = dict(told.get("grounding") or {})
        text = str(told.get(name) or "")
        lost = [one for one in citations if one.get("doc_id") in self._gone]
        if statements := grounding.get("statements"):
            kept = [one for one in citations if one not in lost]
            text, grounding["statements"] = self._without(text, statements, kept)
        else:
            text = self.text(text)
        shown = [{**one, **_NOTHING_QUOTED} if one in lost else one for one in citations]
        return {**told, name: text, "citations": shown, "grounding": grounding}

    def text(self, text: str) -> str:
        """Return a text without the sentences that rest on what is gone."""
        plain = text.strip().casefold()
        if not self.is_reduced or not plain or text in self._own:
            return text
        if any(plain in one for one in self._texts):
            return GONE
        if len(plain) < _SHORT:
            return without_text(text) if self._words.are_in(text) else text
        writer = AnswerWriter(self._passages, marks="documents")
        writer.feed(text)
        writer.finish()
        told = writer.result().groundedness.as_dict()["statements"]
        kept = self._kept_ids
        cited = [asdict(one) for one in writer.citations if one.doc_id in kept]
        left, _ = self._without(writer.text, told, cited)
        return text if left == writer.text else left

    def _without(
        self, text: str, statements: Sequence[Any], citations: Sequence[Any]
    ) -> tuple[str, list[dict[str, Any]]]:
        return without_statements(text, statements, citations, self._kept_ids, self._words)

    def value(self, value: Any) -> Any:
        """Return JSON that a model wrote, each text in it as ``text`` does."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, (int, float)):
            return None if len(str(value)) > 1 and str(value) in self._numbers else value
        if isinstance(value, Mapping):
            return {key: self.value(one) for key, one in value.items()}
        return [self.value(one) for one in value] if isinstance(value, (list, tuple)) else value

    def state(self, state: Any) -> Any:
        """Return a state, or an update of one, without what is gone."""
        if not self.is_reduced or not isinstance(state, Mapping):
            return state
        left = dict(self.hits(state))
        for name in ("edges_var", "prompt_vars"):
            if isinstance(left.get(name), Mapping):
                left[name] = self.value(left[name])
        if isinstance(left.get("flow_msgs"), list):
            turns = left["flow_msgs"]
            left["flow_msgs"] = [{**one, "content": self.text(one["content"])} for one in turns]
        if isinstance(left.get("history_messages"), list):
            left["history_messages"] = [self._earlier(one) for one in left["history_messages"]]
        if left.get("recalled_memories"):
            left["recalled_memories"] = GONE
        return left

    def _earlier(self, turn: Mapping[str, Any]) -> dict[str, Any]:
        # Of what it rests on only the numbers are known here: all of it goes.
        is_said = turn.get("role") != "assistant" or turn.get("content") in self._own
        return dict(turn) if is_said else {**turn, "content": GONE}

    def beginning(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """Return a run's first state; what its person gave it stays."""
        if not self.is_reduced:
            return dict(start)
        told = {
            name: start[name] for name in ("history_messages", "recalled_memories") if name in start
        }
        return {**start, **self.state(told)}

    def event(self, kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the data of an event without what is gone."""
        if not self.is_reduced:
            return dict(data)
        left = dict(self.hits(data))
        if kind in ("token", "draft"):
            # Nobody can tell of which sentence a piece is.
            left["text"] = ""
        if kind in ("node_finished", "done"):
            left = self.answer(left, "answer" if kind == "done" else "response_content")
            left["variables"] = self.value(left.get("variables") or {})
        if kind == "tool":
            left["arguments"] = self.value(left.get("arguments"))
            left["error"] = self.value(left.get("error"))
        if kind == "decided" and "values" in left:
            left["values"] = self.value(left["values"])
        if kind == "paused":
            left["reviews"] = self.reviews(left.get("reviews") or [])
        return left

    def reviews(self, reviews: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return pending reviews; what they ask loses what is gone."""
        left = []
        for one in reviews:
            values = [
                {**each, "value": self.value(each["value"])} for each in one.get("values", ())
            ]
            editable = [
                {**each, "value": self.value(each["value"])} for each in one.get("editable", ())
            ]
            message = self.text(str(one.get("message") or ""))
            more = {"editable": editable} if editable else {}
            left.append({**one, "message": message, "values": values, **more})
        return left

    def record(self, kind: str, record: str) -> str:
        """Return what a continued run takes from an event without what is gone."""
        if not self.is_reduced:
            return record
        packed = json.loads(record)
        if kind == "model_answer":
            packed["merge"] = self._answered(packed["merge"])
        elif kind == "decided":
            packed["merge"] |= self.event(kind, packed["merge"])
        elif kind == "node_finished":
            packed = {name: self.state(one) for name, one in packed.items()}
        return json.dumps(packed, ensure_ascii=False)

    def trace(self, trace: Mapping[str, Any], authored: Mapping[str, str]) -> dict[str, Any]:
        """Return what a model was sent, or conditions were asked of, without what is gone.

        ``authored`` are the prompts of the flow, whose lines stay.
        """
        if not self.is_reduced:
            return dict(trace)
        left = dict(trace)
        if "messages" in left:
            lines = {line.strip() for text in authored.values() for line in text.splitlines()}
            left["messages"] = [
                {**one, "content": self._sent(one, lines)} for one in left["messages"]
            ]
        if "tests" in left:
            left["tests"] = [{**one, "values": self.value(one["values"])} for one in left["tests"]]
        return left

    def _sent(self, turn: Mapping[str, Any], authored: Collection[str]) -> str:
        """Return a turn of a request; of a prompt, lines of authors, persons and what is left."""
        text = str(turn.get("content") or "")
        if turn.get("role") == "assistant":
            return self.text(text)
        known = [*self._own, *(str(one.get("content") or "") for one in self._left)]
        kept: list[str] = []
        for line in text.splitlines():
            bare = line.strip()
            is_left = bare in authored or any(bare in one for one in known)
            if is_left or kept[-1:] != [GONE]:
                kept.append(line if is_left else GONE)
        return "\n".join(kept)

    def hits(self, value: Any) -> Any:
        """Return JSON in which hits of chunks that are gone are empty."""
        return _without(value, self._chunks) if self._chunks else value

    def without_gone(self, chunk_ids: Iterable[int]) -> set[int]:
        """Return those of the run's chunks that are not gone."""
        return set(chunk_ids) - self._chunks

    def _answered(self, reply: Mapping[str, Any]) -> dict[str, Any]:
        text = reply.get("text")
        if not isinstance(text, str):
            return dict(self.value(self.hits(reply)))
        if reply.get("tool_calls"):
            reply = {**reply, "tool_calls": self.value(reply["tool_calls"])}
        try:
            return {**reply, "text": json.dumps(self.value(json.loads(text)), ensure_ascii=False)}
        except ValueError:
            return {**reply, "text": self.text(text)}

    @property
    def _passages(self) -> list[Passage]:
        hits = ((one["doc_id"], Hit.from_dict(one)) for one in self._given)
        return [Passage(doc_id, hit, hit.text) for doc_id, hit in hits]


def redactor_of(*, run: models.FlowRun, scope: Scope | None = None) -> RunRedactor:
    """Return the redactor of a run, for ``scope``, else for its user's rights as they are now."""
    return redactors_of(runs=[run], scope=scope)[run.pk]


def redactors_of(
    *, runs: Sequence[models.FlowRun], scope: Scope | None = None
) -> dict[int, RunRedactor]:
    """Return the redactors of runs by ``pk``, as ``redactor_of`` does.

    The database is asked once for what they found, and once a user for what is readable of it.
    """
    found = _found_passages([run.pk for run in runs if not run.passages])
    found |= {run.pk: run.passages for run in runs if run.passages}
    users: dict[tuple[int | None, bool], list[models.FlowRun]] = {}
    for run in runs:
        users.setdefault((run.user_id, run.is_by_operator), []).append(run)
    redactors = {}
    for theirs in users.values():
        ids = {pk for run in theirs for one in found[run.pk] for pk in hit_chunk_ids(one)}
        ids |= {pk for run in theirs for pk in run.chunk_ids}
        readable: frozenset[int] = frozenset()
        if ids:
            rights = run_scope(run=theirs[0]) if scope is None else scope
            readable = readable_chunks(sorted(ids), rights)
        for run in theirs:
            redactors[run.pk] = RunRedactor(found[run.pk], readable, _own_texts(run), run.chunk_ids)
    return redactors


def _own_texts(run: models.FlowRun) -> list[str]:
    own = [str((run.start.get("current_message") or {}).get("content") or "")]
    before = run.start.get("history_messages") or ()
    own += [str(one.get("content") or "") for one in before if one.get("role") == "user"]
    return own + [
        one for one in (run.start.get("prompt_vars") or {}).values() if isinstance(one, str)
    ]


def _found_passages(run_ids: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
    """Return what runs that have not ended yet have found, by their events."""
    found: dict[int, dict[str, dict[str, Any]]] = {pk: {} for pk in run_ids}
    if run_ids:
        events = models.RunEvent.objects.filter(run__in=run_ids, data__has_key="passages")
        for pk, data in events.order_by("run_id", "seq").values_list("run_id", "data"):
            found[pk] |= {one["doc_id"]: one for one in data["passages"]}
    return {pk: list(passages.values()) for pk, passages in found.items()}


_CHANGED = (
    "chunk_ids",
    "answer",
    "citations",
    "grounding",
    "passages",
    "start",
    "state",
    "reviews",
)


def redact_deleted_runs() -> int:
    """Take what deleted passages said out of the runs that rest on them; return how many.

    A deletion does so itself (``redact_runs``): this finds what it could not.
    """
    still = models.FlowRun.objects.exclude(status=models.FlowRun.Status.RUNNING)
    return _redact_runs(still.exclude(Q(passages=[]) & Q(chunk_ids=[])))


def redact_runs(chunk_ids: Sequence[int]) -> int:
    """Take what deleted chunks said out of the runs that rest on them; return how many.

    A run at work goes on, and loses its words when it ends. In the transaction of the deletion.
    """
    resting = models.FlowRun.objects.filter(chunk_ids__overlap=list(chunk_ids))
    return _redact_runs(resting.exclude(status=models.FlowRun.Status.RUNNING))


def redact_ended_run(*, run: models.FlowRun) -> None:
    """Take out of a run that ends or pauses now what was deleted while it worked."""
    _redact_runs(models.FlowRun.objects.filter(pk=run.pk))


def note_found(*, run: models.FlowRun, chunk_ids: Iterable[int]) -> bool:
    """Write down what a run rests on; return whether all of it is there until the commit."""
    run.chunk_ids = sorted({*run.chunk_ids, *chunk_ids})
    # First the chunks, as who deletes them does.
    is_whole = are_there(run.chunk_ids)
    models.FlowRun.objects.filter(pk=run.pk).update(chunk_ids=run.chunk_ids)
    return is_whole


def _redact_runs(rows: QuerySet[models.FlowRun]) -> int:
    n_changed, after = 0, 0
    while batch := list(rows.filter(pk__gt=after).order_by("pk")[:BATCH]):
        after = batch[-1].pk
        for pk, redactor in redactors_of(runs=batch, scope=Scope.operator()).items():
            if redactor.is_reduced:
                (run,) = (one for one in batch if one.pk == pk)
                _redact_stored(run, redactor)
                n_changed += 1
    return n_changed


def _redact_stored(run: models.FlowRun, redactor: RunRedactor) -> None:
    told = redactor.answer(
        {"answer": run.answer, "citations": run.citations, "grounding": run.grounding}
    )
    run.answer, run.grounding = told["answer"], told["grounding"]
    run.citations = [_without_chunk(one) for one in told["citations"]]
    run.passages = [_without_chunk(one) for one in redactor.hits(run.passages)]
    run.chunk_ids = sorted(redactor.without_gone(run.chunk_ids))
    run.state, run.reviews = redactor.state(run.state), redactor.reviews(run.reviews)
    run.start = redactor.beginning(run.start)
    rows = list(run.events.all())
    for row in rows:
        row.data = redactor.event(row.kind, row.data)
        if row.record is not None:
            row.record = redactor.record(row.kind, row.record)
        if row.trace is not None:
            trace = redactor.trace(json.loads(row.trace), run.version.prompts)
            row.trace = json.dumps(trace, ensure_ascii=False)
    with transaction.atomic():
        run.save(update_fields=_CHANGED)
        models.RunEvent.objects.bulk_update(rows, ("data", "record", "trace"), batch_size=BATCH)


def _without_chunk(one: Mapping[str, Any]) -> dict[str, Any]:
    # Without its chunk it is not looked for again.
    return {**one, "chunk_id": None} if one.get("is_gone") else dict(one)


def redact_hits(*, values: Sequence[Any], scope: Scope) -> list[Any]:
    """Return the values; hits of chunks that are gone or hidden are empty and ``is_gone``."""
    found = frozenset(_chunk_ids(list(values)))
    if not found:
        return list(values)
    gone = found - readable_chunks(sorted(found), scope)
    return [_without(value, gone) for value in values] if gone else list(values)


def _is_hit(value: Any) -> bool:
    return isinstance(value, Mapping) and "content" in value and bool(_chunks(value))


def _chunks(value: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the chunks of a raw result, or of a structured one, whose place is its metadata."""
    if value.get("chunk_id") is not None:
        return hit_chunk_ids(value)
    place = value.get("metadata")
    # What other sources keep under the same name comes without a revision of ours.
    if isinstance(place, Mapping) and isinstance(place.get("revision"), int):
        return hit_chunk_ids(place)
    return ()


def _chunk_ids(value: Any) -> Iterator[int]:
    if _is_hit(value):
        yield from _chunks(value)
    elif isinstance(value, Mapping):
        yield from (pk for one in value.values() for pk in _chunk_ids(one))
    elif isinstance(value, (list, tuple)):
        yield from (pk for one in value for pk in _chunk_ids(one))


def _without(value: Any, gone: frozenset[int]) -> Any:
    if _is_hit(value):
        return value if gone.isdisjoint(_chunks(value)) else {**value, **_EMPTY}
    if isinstance(value, Mapping):
        return {key: _without(one, gone) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without(one, gone) for one in value]
    return value
