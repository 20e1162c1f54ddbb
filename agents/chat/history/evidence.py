"""Evidence of answers (text, sources, citations), redacted to what may be read today.

The text of a passage goes with the right to read it, and so does what an answer said from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from agents import models
from agents.chat.history.titles import retitle
from agents.runtime.redaction import LostWords, without_statements, without_text
from agents.runtime.scopes import readable_chunks
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, NotFoundError
from rag.core.hits import Hit, hit_chunk_ids
from rag.services.answers import own_file_path

BATCH = 200
_ANSWER = models.Message.Status
_WORDS = ("content", "query", "sources", "citations", "grounding", "chunk_ids")
_READ = (*_WORDS, "session_id")
_EMPTY: Mapping[str, Mapping[str, Any]] = {
    "sources": {"content": "", "highlights": [], "is_gone": True},
    "citations": {"quote": "", "found": "", "claim": "", "is_gone": True},
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """An answer's words, what was looked at for it, what it cites, and what holds of each word.

    ``is_reduced`` tells that something it rests on is gone.
    """

    content: str = ""
    query: str = ""
    sources: list[dict[str, Any]] = field(default_factory=list)
    citations: list[dict[str, Any]] = field(default_factory=list)
    grounding: dict[str, Any] = field(default_factory=dict)
    is_reduced: bool = False


def redact_unreadable(*, messages: Sequence[models.Message], scope: Scope) -> dict[int, Evidence]:
    """Return the evidence of each message by its id.

    Sources and citations of chunks that are gone, or that ``scope`` may not read any more, are
    empty and marked ``is_gone``; what the answer may have said from them, or from earlier answers
    that rest on such, is ``[…]``.
    """
    readable = readable_chunks((pk for message in messages for pk in chunk_ids_of(message)), scope)
    return {message.pk: _evidence(message, readable, scope) for message in messages}


def chunk_ids_of(message: models.Message) -> set[int]:
    """Return the chunks that an answer rests on: shown to its model, cited, or inherited."""
    own = (pk for one in (*message.sources, *message.citations) for pk in hit_chunk_ids(one))
    return {*own, *message.chunk_ids}


def cited_hit(*, message: models.Message, cited: Mapping[str, Any]) -> Hit:
    """Return the chunks that a quote of ours stands in: of a merged source those that it touches.

    The text is that of the whole source.
    """
    place: dict[str, Any] = {
        name: cited.get(name) for name in ("chunk_id", "revision", "char_start", "char_end")
    }
    sources = (one for one in message.sources if one.get("doc_id") == cited.get("doc_id"))
    merged = next((one for one in sources if len(hit_chunk_ids(one)) > 1), None)
    if merged is None or None in place.values():
        return Hit.from_dict({"content": "", **place})
    source = Hit.from_dict(merged)
    parts = source.parts_at(place["char_start"], place["char_end"])
    return replace(
        source,
        chunk_id=parts[0].chunk_id,
        revision=parts[0].revision,
        data={"chunks": [asdict(part) for part in parts]},
    )


def can_open_source(*, hit: Hit, scope: Scope) -> bool:
    """Return False for what a page sent along out of a file of ours that is not readable now."""
    address = hit.external_id
    is_file = hit.source == "page" and hit.content_type == "url"
    if not is_file or address.startswith(("http://", "https://")):
        return True
    try:
        own_file_path(address, scope, ())
    except (InvalidInputError, NotFoundError):
        return False
    return True


def _evidence(message: models.Message, readable: frozenset[int], scope: Scope) -> Evidence:
    gone = {
        one.get("doc_id")
        for one in message.sources
        if one.get("chunk_id") is None and not can_open_source(hit=Hit.from_dict(one), scope=scope)
    }

    def is_gone(one: Mapping[str, Any]) -> bool:
        if one.get("chunk_id") is None:
            return one.get("doc_id") in gone
        # A quote of ours has a number; what else has a chunk is a source with all its parts.
        ids = cited_hit(message=message, cited=one).chunk_ids if "number" in one else ()
        return not readable.issuperset(ids or hit_chunk_ids(one))

    def shown(kind: str) -> list[dict[str, Any]]:
        return [{**one, **(_EMPTY[kind] if is_gone(one) else {})} for one in getattr(message, kind)]

    lost = [one for one in message.citations if is_gone(one)]
    gone |= {one.get("doc_id") for one in message.sources if is_gone(one)}
    content, query, grounding = message.content, message.query, dict(message.grounding)
    is_reduced = bool(gone or lost) or not readable.issuperset(message.chunk_ids)
    if is_reduced and (statements := grounding.get("statements")):
        kept_ids = {one.get("doc_id") for one in message.sources} - gone
        shown_citations = [one for one in message.citations if one not in lost]
        words = _lost_words(message, gone)
        content, kept = without_statements(content, statements, shown_citations, kept_ids, words)
        grounding["statements"] = kept
    elif is_reduced:
        content = without_text(content)
    if is_reduced and query:
        # Written from the turns before, which may be what is gone.
        query = message.parent.content if message.parent else ""
    return Evidence(content, query, shown("sources"), shown("citations"), grounding, is_reduced)


def _lost_words(message: models.Message, gone: set[Any]) -> LostWords:
    texts: dict[bool, list[str]] = {True: [], False: []}
    for one in message.sources:
        texts[one.get("doc_id") in gone].append(str(one.get("content") or ""))
    asked = message.parent.content if message.parent else ""
    return LostWords(texts[True], [*texts[False], asked])


def redact_deleted() -> int:
    """Take what deleted passages said out of the answers that rest on them; return how many.

    A deletion does so itself (``redact_answers``): this finds what it could not, such as rows of a
    restored dump.
    """
    ended = models.Message.objects.exclude(status=_ANSWER.RUNNING)
    return _redact(ended.exclude(Q(sources=[]) & Q(citations=[]) & Q(chunk_ids=[])))


def redact_answers(chunk_ids: Sequence[int]) -> int:
    """Take what deleted chunks said out of answers, titles and summaries; return how many.

    Answers that are being written from them are stopped. In the transaction of the deletion.
    """
    resting = models.Message.objects.filter(chunk_ids__overlap=list(chunk_ids))
    if not resting.exists():
        return 0
    # Sessions first, as who ends an answer does.
    sessions = models.Session.objects.filter(pk__in=resting.values("session")).order_by("pk")
    list(sessions.select_for_update().values_list("pk"))
    resting.filter(status=_ANSWER.RUNNING).update(status=_ANSWER.STOPPED)
    return _redact(resting)


def redact_ended(*, message_id: int) -> int:
    """Take out of an answer that ends now what was deleted while it was written."""
    return _redact(models.Message.objects.filter(pk=message_id))


def _redact(resting: QuerySet[models.Message]) -> int:
    n_changed, after = 0, 0
    rows = resting.select_related("parent").only(*_READ, "parent__content").order_by("pk")
    while batch := list(rows.filter(pk__gt=after)[:BATCH]):
        after = batch[-1].pk
        held = readable_chunks((pk for row in batch for pk in chunk_ids_of(row)), Scope.operator())
        gone = [row for row in batch if not held.issuperset(chunk_ids_of(row))]
        evidence = redact_unreadable(messages=gone, scope=Scope.operator())
        with transaction.atomic():
            for row in gone:
                shown = evidence[row.pk]
                row.content, row.query = shown.content, shown.query
                row.sources = [_without_chunk(one) for one in shown.sources]
                row.citations = [_without_chunk(one) for one in shown.citations]
                row.grounding = shown.grounding
                row.chunk_ids = sorted(held.intersection(row.chunk_ids))
            models.Message.objects.bulk_update(gone, _WORDS)
            _clear_derived(gone)
            models.MessageEvent.objects.filter(message__in=gone).delete()
            steps = models.TraceStep.objects.filter(message__in=gone)
            steps.exclude(kind="sources").update(data={})
        n_changed += len(gone)
    return n_changed


def _clear_derived(answers: Sequence[models.Message]) -> None:
    # Summaries may hold the words too, and are made anew from what is left; so may titles.
    first: dict[int, int] = {}
    for one in answers:
        first[one.session_id] = min(one.pk, first.get(one.session_id, one.pk))
    for session_id, pk in first.items():
        later = models.Message.objects.filter(session_id=session_id, pk__gte=pk)
        later.exclude(summary="").update(summary="")
        session = models.Session.objects.get(pk=session_id)
        if session.titled_after_id in {one.pk for one in answers}:
            retitle(session=session)


def _without_chunk(one: Mapping[str, Any]) -> dict[str, Any]:
    # Without its chunk it is not looked for again.
    return {**one, "chunk_id": None} if one.get("is_gone") else dict(one)
