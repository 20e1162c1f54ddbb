"""Jobs in words of people: what is done, and to what. In: rows of the queue. Out: table cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from rag import models

TASKS = {
    "rag.index_file": _("read and index a file"),
    "rag.build_indexes": _("build the index of vectors"),
    "rag.reweigh_store": _("weigh the words of a store anew"),
    "rag.reindex_run": _("index a store anew"),
    "rag.retire_run": _("give up an old model's vectors"),
    "rag.clear_space": _("remove vectors that nobody searches"),
    "rag.evaluation_run": _("ask the golden questions"),
    "rag.drain_outbox": _("upkeep: write what waits to be written"),
    "rag.recover_jobs": _("upkeep: bring back what stopped"),
    "rag.tidy_up": _("upkeep: remove what is left over"),
    "agents.adopt_run": _("go on with a flow"),
    "agents.tend_answers": _("upkeep: end answers that stopped"),
    "agents.defer_abandoned_runs": _("upkeep: find flows that stopped"),
    "agents.clear_old": _("upkeep: forget old conversations"),
    "agents.drop_gone": _("upkeep: forget what was deleted"),
    "agents.embed_memories": _("upkeep: make memories searchable"),
}
EVENTS = {
    "deferred": _("put into the queue"),
    "deferred_for_retry": _("put into the queue once more"),
    "retried": _("put into the queue once more"),
    "scheduled": _("waits for its time"),
    "started": _("taken up"),
    "succeeded": _("succeeded"),
    "failed": _("failed"),
    "cancelled": _("cancelled"),
    "abort_requested": _("asked to stop"),
    "aborted": _("aborted"),
}
_ROWS: dict[str, tuple[type[Any], str, str]] = {
    "file_id": (models.File, "name", "rag_file"),
    "store_id": (models.Store, "name", "rag_store"),
}
_RUNS = {"rag.reindex_run": "rag_reindexrun", "rag.retire_run": "rag_reindexrun",
         "rag.evaluation_run": "rag_evaluationrun"}  # fmt: skip


def task_words(name: str) -> SafeString:
    """Return what a task does, its name at hand for who looks after the installation."""
    return format_html('<span title="{}">{}</span>', name, TASKS.get(name, name))


def names_of(jobs: list[Any]) -> dict[tuple[str, int], str]:
    """Return the names of the files and stores that jobs work on: two queries at most."""
    found: dict[tuple[str, int], str] = {}
    for key, (model, field, _name) in _ROWS.items():
        ids = {job.args[key] for job in jobs if isinstance(job.args.get(key), int)}
        if ids:
            rows = model.objects.filter(pk__in=ids).values_list("pk", field)
            found |= {(key, pk): name for pk, name in rows}
    return found


def concerns(job: Any, names: Mapping[tuple[str, int], str]) -> SafeString | str:
    """Return the way to what a job works on; a dash for the upkeep, or where it is gone."""
    for key, (_model, _field, name) in _ROWS.items():
        pk = job.args.get(key)
        if (key, pk) in names:
            return _way(name, pk, names[key, pk])
    run = job.args.get("run_id")
    if job.task_name in _RUNS and isinstance(run, int):
        return _way(_RUNS[job.task_name], run, _("run %(n)d") % {"n": run})
    return "–"


def _way(name: str, pk: int, text: Any) -> SafeString:
    url = reverse(f"admin:{name}_change", args=[pk])
    return format_html('<a class="desk-link" href="{}">{}</a>', url, text)
