"""Questions about the files themselves (how many, which, newest), answered from the database."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from rag import models
from rag.core.access import Scope
from rag.services.chunks import find_chunks
from rag.stages.query.file_question import parse_store_question
from rag.stages.text.simplified import written_forms
from rag.stages.text.terms import is_han

MAX_NAMES = 10
_TEXTS = {
    "count": ("共有 {n} 个文件。", "There are {n} files."),
    "count_topic": ("有 {n} 个文件涉及“{topic}”{names}。", "{n} files mention “{topic}”{names}."),
    "newest": ("最新的文件：{names}。", "The newest files: {names}."),
    "list": ("共有 {n} 个文件：{names}。", "There are {n} files: {names}."),
    "none": ("这里还没有文件。", "There are no files here yet."),
    "names": ("：{names}", ": {names}"),
    "dated": ("{name}（{day}）", "{name} ({day})"),
    "more": ("等", " and others"),
}


def answer_store_question(*, question: str, scope: Scope, stores: Sequence[models.Store]) -> str:
    """Return the answer to a question about the files themselves, empty for any other question.

    Only searchable files that ``scope`` may read are counted and named, newest first; files mention
    what stands in their name or text.
    """
    asked = parse_store_question(question)
    if asked is None:
        return ""
    files = models.File.objects.readable(scope).filter(
        store__in=[store.pk for store in stores], n_chunks__gt=0
    )
    language = 0 if is_han(question) else 1
    if asked.topic:
        files = files.filter(_mentions(asked.topic, scope, stores))
        n, names = _names(files, language, MAX_NAMES)
        listed = _TEXTS["names"][language].format(names=names) if names else ""
        return _TEXTS["count_topic"][language].format(n=n, topic=asked.topic, names=listed)
    n, names = _names(files, language, 3 if asked.kind == "newest" else MAX_NAMES)
    kind = asked.kind if n else "none"
    return _TEXTS[kind][language].format(n=n, names=names)


def _mentions(topic: str, scope: Scope, stores: Sequence[models.Store]) -> Q:
    topic = topic.replace("\0", " ")
    live = models.Chunk.objects.filter(
        store__in=[store.pk for store in stores], is_live=True, enabled=True
    )
    mentions = Q()
    for form in written_forms(topic):
        held = find_chunks(chunks=live, scope=scope, words=form).filter(file_id=OuterRef("pk"))
        mentions |= Q(name__icontains=form) | Q(Exists(held))
    return mentions


def _names(files: QuerySet[models.File], language: int, limit: int) -> tuple[int, str]:
    n = files.aggregate(n=Count("pk"))["n"]
    newest = files.order_by("-updated_at", "-pk").values_list("name", "updated_at")[:limit]
    shown = ("、", ", ")[language].join(
        _TEXTS["dated"][language].format(name=name, day=f"{at:%Y-%m-%d}") for name, at in newest
    )
    return n, shown + (_TEXTS["more"][language] if n > limit else "")
