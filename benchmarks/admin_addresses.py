"""Admin benchmark, its requests: the addresses of all lists and pages for one person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.urls import reverse
from procrastinate.contrib.django.models import ProcrastinateJob

from benchmarks.admin_world import word
from rag import models
from rag.admin.ui.paginator import EstimatingPaginator
from rag.services.access.api_keys import scope_of

ROWS_A_PAGE = 50
WORDS = {"rare": word(1500), "often": word(30), "common": word(0)}
# Beside the bare lists: what people ask of the long ones. The last page is the one that the list
# itself offers.
ASKED = {
    "rag_store": ("q=store+1", "o=1", "o=-7"),
    "rag_file": (
        "q={rare}",
        "q={common}",
        "q=nosuchword",
        "status__exact=error",
        "store={store}",
        "store={store}&status__exact=error",
        "store={store}&q={rare}",
        "kind=pdf",
        "kind=docx",
        "o=1",
        "o=-4",
        "o=9",
        "store={store}&o=1",
        "p={far}",
        "p={last}",
    ),
    "rag_chunk": (
        "q={rare}",
        "q={common}",
        "q={often}",
        "q={common}+{rare}",
        "q={often}+{rare}",
        "q={common}&p={near}",
        "q=nosuchword",
        "store={store}",
        "file={file}",
        "enabled__exact=0",
        "touched=edited",
        "touched=off",
        "live=no",
        "store={store}&q={rare}",
        "store={store}&q={common}",
        "store={store}&q={often}",
        "p={far}",
        "p={last}",
    ),
    "rag_chunkrevision": ("p={last}",),
    "rag_querylog": (
        "q={rare}",
        "q=nosuchword",
        "hits=none",
        "hits=some",
        "quality=low",
        "quality=good",
        "quality=citation",
        "quality=uncited",
        "kind__exact=search",
        "store={store}",
        "o=8",
        "p={last}",
    ),
    "rag_usagerecord": ("q=m1", "q=nosuchword", "outcome__exact=failed", "o=0", "p={last}"),
    "rag_auditentry": ("q=nosuchword", "kind=store"),
    "rag_goldenquestion": ("q=77", "expects=none", "expects=some", "store={store}", "o=6"),
    "rag_evaluationrun": ("store={store}",),
    "procrastinate_procrastinatejob": (
        "state=failed",
        "state=stalled",
        "state=todo",
        "upkeep=with",
        "p={last}",
    ),
}
# What the golden question's, key's and store's forms complete: model, field, of what.
COMPLETED = (
    ("goldentarget", "file", "{rare}"),
    ("goldentarget", "file", "{common}"),
    ("goldentarget", "file", ""),
    ("goldentarget", "chunk", "{rare}"),
    ("goldentarget", "chunk", "{common}"),
    ("goldentarget", "chunk", ""),
    ("apikey", "stores", "store+1"),
    ("store", "owner", "b"),
)
# Those that an editor's forms ask.
PROMPTS = ("goldentarget",)


def desk_addresses(person: User) -> Iterator[str]:
    """Yield what this person may ask, the first page first."""
    yield reverse("admin:index")
    yield from _lists(person)
    yield from _completions(person)
    yield from _pages(person)


def is_list(address: str) -> bool:
    """Return whether an address is that of a list, with or without filters."""
    path = address.partition("?")[0]
    return path.count("/") == reverse("admin:rag_file_changelist").count("/")


def _lists(person: User) -> Iterator[str]:
    store = _store(person)
    words = {
        **WORDS,
        "store": store.pk,
        "file": store.files.earliest("pk").pk,
    }
    for model, desk in admin.site._registry.items():
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        if not _may(person, "view", model):
            continue
        address = reverse(f"admin:{name}_changelist")
        yield address
        n_pages = EstimatingPaginator(_visible(person, desk), ROWS_A_PAGE).num_pages
        for asked in ASKED.get(name, ()):
            if n_pages > 1 or "p={" not in asked:
                pages = {"near": n_pages // 20 + 1, "far": n_pages // 2, "last": n_pages}
                yield f"{address}?{asked.format(**pages, **words)}"


def _completions(person: User) -> Iterator[str]:
    for model, field, term in COMPLETED:
        if model in PROMPTS or person.is_superuser:
            asked = term.format(**WORDS)
            yield (
                f"{reverse('admin:autocomplete')}?app_label=rag&model_name={model}"
                f"&field_name={field}&term={asked}"
            )


def _pages(person: User) -> Iterator[str]:
    store = _store(person)
    file = store.files.earliest("pk")
    edited = models.ChunkRevision.objects.filter(chunk__store=store).earliest("pk").chunk
    logged = models.QueryLog.objects.filter(store_ids=[store.pk]).earliest("pk")
    question = models.GoldenQuestion.objects.filter(store=store).earliest("pk")
    job = ProcrastinateJob.objects.get(lock=f"file:{file.pk}").pk
    rows = (
        ("store", store),
        ("file", file),
        ("chunk", edited),
        ("querylog", logged),
        ("goldenquestion", question),
        ("chunkrevision", edited.revisions.get()),
    )
    for kind, row in rows:
        yield reverse(f"admin:rag_{kind}_change", args=[row.pk])
    pages: tuple[tuple[str, Any, str], ...] = (
        ("store_search", store, ""),
        ("store_search", store, f"?q={word(1500)}+{word(0)}"),
        ("store_search", store, f"?q={word(3)}&compare=1"),
        ("store_upload", store, ""),
        ("store_delete", store, ""),
        ("chunk_preview", store, ""),
        ("chunk_preview", store, f"?file={file.pk}&size=100&overlap=10"),
        ("file_text", file, ""),
        ("file_text", file, "?at=300-600#mark"),
        ("chunk_text", edited, ""),
        ("chunk_revisions", edited, ""),
        ("chunk_add_to", file, f"?after={file.chunks.earliest('pk').pk}"),
    )
    for name, row, query in pages:
        yield reverse(f"admin:rag_{name}", args=[row.pk]) + query
    ids = ",".join(str(pk) for pk in store.files.values_list("pk", flat=True)[:ROWS_A_PAGE])
    yield f"{reverse('admin:rag_file_progress')}?ids={ids}"
    yield reverse("admin:procrastinate_procrastinatejob_change", args=[job])
    if _may(person, "view", models.UsageRecord):
        used = models.UsageRecord.objects.readable(scope_of(person)).earliest("pk")
        yield reverse("admin:rag_usagerecord_change", args=[used.pk])


def _store(person: User) -> models.Store:
    return models.Store.objects.readable(scope_of(person)).earliest("pk")


def _may(person: User, deed: str, model: Any) -> bool:
    return person.has_perm(f"{model._meta.app_label}.{deed}_{model._meta.model_name}")


def _visible(person: User, desk: Any) -> QuerySet[Any]:
    rows: QuerySet[Any] = desk.model._default_manager.all()
    return desk.readable(rows, scope_of(person)) if hasattr(desk, "readable") else rows
