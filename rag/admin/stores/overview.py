"""Store overview: size, health, latest queries and golden questions as a template's context."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Q, Sum
from django.http import HttpRequest
from django.utils.translation import gettext as _

from rag import models
from rag.admin.ui.cells import label, list_link
from rag.admin.ui.scoped import scope_for
from rag.conf import conf
from rag.core.documents import KINDS, SUFFIXES
from rag.services.index import pending_indexes
from rag.services.operations import visible_queries

N_QUERIES = 8


def store_overview(request: HttpRequest, store: models.Store) -> dict[str, Any]:
    """Return the context shown above the store form, limited to what this person may see."""
    has = request.user.has_perm
    overview: dict[str, Any] = {
        "limit_bytes": conf().max_file_bytes,
        "limit_mb": conf().max_file_bytes // 1024**2,
        "accept": ",".join([*(f".{kind}" for kind in KINDS), *SUFFIXES, ".zip"]),
    }
    if not store.is_remote:
        overview |= _size_and_health(store)
    if has("rag.view_querylog"):
        mine = visible_queries(scope=scope_for(request)).filter(store_ids__contains=[store.pk])
        overview["queries"] = list(
            mine.order_by("-pk").values("pk", "query", "confidence", "created_at")[:N_QUERIES]
        )
    if has("rag.view_goldenquestion"):
        overview["n_golden"] = models.GoldenQuestion.objects.filter(store=store).count()
    if has("rag.view_evaluationrun"):
        runs = models.EvaluationRun.objects.readable(scope_for(request)).done().filter(store=store)
        overview["last_run"] = runs.order_by("-pk").first()
    return overview


def _size_and_health(store: models.Store) -> dict[str, Any]:
    """Return total bytes and a badge with a link for each problem; one pass over the files."""
    states = models.File.Status
    counts = models.File.objects.filter(store=store).aggregate(
        n_bytes=Sum("size"),
        failed=Count("pk", filter=Q(status=states.ERROR)),
        busy=Count("pk", filter=Q(status__in=(states.PROCESSING, states.UPLOADING))),
        warned=Count("pk", filter=~Q(warnings=[])),
        empty=Count("pk", filter=Q(n_chunks=0, status=states.COMPLETED)),
    )
    n_conflicts = models.ChunkConflict.objects.filter(file__store=store).count()
    found = [
        ("rag_file", counts["failed"], _("%(n)d failed"), "bad", {"status__exact": states.ERROR}),
        (
            "rag_file",
            counts["busy"],
            _("%(n)d being indexed"),
            "busy",
            {"status__exact": states.PROCESSING},
        ),
        ("rag_file", counts["warned"], _("%(n)d with warnings"), "warn", {}),
        ("rag_file", counts["empty"], _("%(n)d without text"), "warn", {}),
        ("rag_chunkconflict", n_conflicts, _("%(n)d unplaced edits"), "warn", {}),
    ]
    health = [
        list_link(model, label(text % {"n": n}, colour), store=store.pk, **query)
        for model, n, text, colour, query in found
        if n
    ]
    if pending_indexes(space_id=store.live_space_id):
        health.append(label(_("vector index being built"), "busy"))
    return {"n_bytes": counts["n_bytes"] or 0, "health": health or [label(_("healthy"), "good")]}
