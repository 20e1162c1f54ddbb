"""Sections of the knowledge base: stores, and the golden questions of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rag import models
from rag.core.access import Scope
from rag.core.errors import ConflictError, InvalidInputError, NotFoundError
from rag.services.configuration.people import group_names, named_groups, named_owner
from rag.services.configuration.sections import (
    ConfigItem,
    ConfigSection,
    Described,
    register_section,
)
from rag.services.evaluation import TargetResolver, save_question, set_targets
from rag.services.reindex import rechunk_store
from rag.services.stores import CHANGEABLE, create_store, delete_store, update_store

_FIELDS = tuple(name for name in CHANGEABLE if name != "slug")
_GROUPS = ("reader_groups", "editor_groups")


class StoreItem(ConfigItem):
    """The keys of a store; its name in addresses is that of the file."""

    name: str = ""
    display_name: str = ""
    embedding_model: str = ""
    owner: str | None = None
    reader_groups: list[str] = []
    editor_groups: list[str] = []
    is_public: bool = False
    max_tokens_per_chunk: int = 0
    max_overlap_tokens: int = 0
    splitter: str = ""
    ocr: bool = False
    reads_hidden_cells: bool = False
    retrieval: dict[str, Any] = {}
    vocabulary: dict[str, Any] = {}
    cache_ttl_s: int = 0


class ExpectedItem(ConfigItem):
    """A passage of a file that must be found, or any of the file."""

    file: str
    passage: str = ""
    grade: int = 1


class QuestionItem(ConfigItem):
    """A golden question."""

    question: str
    enabled: bool = True
    note: str = ""
    expects: list[ExpectedItem] = []


class GoldenItem(ConfigItem):
    """The golden questions of a store; the file has the store's name in addresses."""

    questions: list[QuestionItem]


def _stores(scope: Scope) -> Any:
    return models.Store.objects.editable(scope).filter(backend=models.Store.Backend.LOCAL)


def _describe_stores(scope: Scope) -> Described:
    rows = _stores(scope).select_related("owner", "space").prefetch_related(*_GROUPS)
    return {
        store.slug: {
            **{name: getattr(store, name) for name in _FIELDS},
            "embedding_model": store.space.model,
            "owner": store.owner.get_username() if store.owner else None,
            **{name: group_names(getattr(store, name)) for name in _GROUPS},
        }
        for store in rows.order_by("slug")
    }


def _put_store(scope: Scope, slug: str, values: dict[str, Any], prunes: bool) -> None:
    given = dict(values)
    groups = {name: named_groups(given.pop(name), scope) for name in _GROUPS if name in given}
    store = _stores(scope).select_related("space").filter(slug=slug).first()
    model = given.pop("embedding_model", "")
    owner = {"owner": named_owner(given.pop("owner"), scope)} if "owner" in given else {}
    if store is None:
        if models.Store.objects.filter(slug=slug).exists():
            raise ConflictError.name_taken(slug)
        who = owner or {"owner_id": scope.user_id}
        name = given.pop("name", "") or slug
        store = create_store(name=name, slug=slug, embedding_model=model, **who, **given)
        given = {}
    elif model not in ("", store.space.model):
        raise InvalidInputError(
            "The store “{name}” is on {model}.",
            hint="Another embedding model is a move: rag_move.",
            name=slug,
            model=store.space.model,
        )
    elif owner and owner["owner"] != store.owner:
        models.Store.objects.filter(pk=store.pk).update(**owner)
    splitter = store.splitter
    update_store(scope=scope, store=store, values=given, **groups)
    if store.splitter != splitter:
        rechunk_store(scope=scope, store=store)


def _drop_store(scope: Scope, slug: str) -> None:
    delete_store(store=_stores(scope).get(slug=slug))


def _describe_golden(scope: Scope) -> Described:
    rows = models.GoldenQuestion.objects.editable(scope).order_by("store__slug", "query")
    found: Described = {}
    for row in rows.select_related("store").prefetch_related("targets__file", "targets__chunk"):
        item = {
            "question": row.query,
            "enabled": row.enabled,
            "note": row.note,
            "expects": _sorted(_expected(one) for one in row.targets.all()),
        }
        found.setdefault(row.store.slug, {"questions": []})["questions"].append(item)
    return found


def _expected(target: models.GoldenTarget) -> dict[str, Any]:
    passage = target.chunk.text if target.chunk else ""
    return {"file": target.file.name, "passage": passage, "grade": target.grade}


def _sorted(expects: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    filled = ({"file": "", "passage": "", "grade": 1, **one} for one in expects)
    return sorted(filled, key=lambda one: (one["file"], one["passage"]))


def _put_golden(scope: Scope, slug: str, values: dict[str, Any], prunes: bool) -> None:
    store = _stores(scope).filter(slug=slug).first()
    if store is None:
        raise NotFoundError("There is no store “{name}”.", name=slug)
    now = _describe_golden(scope).get(slug, {"questions": []})["questions"]
    known = {one["question"]: one for one in now}
    for one in values["questions"]:
        given = {**one, "expects": _sorted(one["expects"])} if "expects" in one else one
        had = known.get(given["question"], {})
        if any(name not in had or had[name] != value for name, value in given.items()):
            _put_question(scope, store, given)
    if prunes:
        kept = [one["question"] for one in values["questions"]]
        models.GoldenQuestion.objects.filter(store=store).exclude(query__in=kept).delete()


def _put_question(scope: Scope, store: models.Store, given: dict[str, Any]) -> None:
    facts: dict[str, Any] = {name: given[name] for name in ("enabled", "note") if name in given}
    question, is_new = save_question(
        scope=scope,
        store=store,
        query=given["question"],
        facts={**facts, "created_by_id": scope.user_id},
    )
    if not is_new and facts:
        models.GoldenQuestion.objects.filter(pk=question.pk).update(**facts)
    if "expects" in given:
        rows = [
            (n, {**one, "chunk": "", "grade": str(one["grade"])})
            for n, one in enumerate(given["expects"])
        ]
        resolver = TargetResolver(store, rows)
        wanted = [resolver.wanted(n, row) for n, row in rows]
        set_targets(scope=scope, question=question, wanted=[one for one in wanted if one])


register_section(
    ConfigSection("stores", StoreItem, "rag.{}_store", _describe_stores, _put_store, _drop_store)
)
register_section(
    ConfigSection("golden", GoldenItem, "rag.{}_goldenquestion", _describe_golden, _put_golden)
)
