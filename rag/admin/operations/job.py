"""Job queue in the admin: states, targets and events of jobs, retry and cancel."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib import admin, messages
from django.db.models import Max, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.ui.cells import column, label, page_link, text_block
from rag.admin.ui.scoped import ReadOnlyAdmin, ScopedChangeList, row_ids, scope_for
from rag.core.access import Scope
from rag.services.operations import (
    Job,
    JobEvent,
    cancel_jobs,
    retry_jobs,
    stalled_jobs,
    visible_jobs,
)

if TYPE_CHECKING:
    from django.contrib.admin.views.main import ChangeList


TASK_LABELS = {
    "rag.index_file": _("read and index a file"),
    "rag.build_indexes": _("build the index of vectors"),
    "rag.reweigh_store": _("recompute the word weights of a store"),
    "rag.reindex_run": _("reindex a store"),
    "rag.retire_run": _("delete an old model's vectors"),
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
EVENT_LABELS = {
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
    "file_id": (models.File, "name", "rag_file_change"),
    "store_id": (models.Store, "name", "rag_store_change"),
}
_RUNS = {
    "rag.reindex_run": "rag_reindexrun_change",
    "rag.retire_run": "rag_reindexrun_change",
    "rag.evaluation_run": "rag_evaluationrun_change",
}


def task_label(name: str) -> SafeString:
    """Return a task's label, with its technical name as a tooltip."""
    return format_html('<span title="{}">{}</span>', name, TASK_LABELS.get(name, name))


def job_target_names(jobs: list[Any]) -> dict[tuple[str, int], str]:
    """Return the names of the files and stores that jobs concern; two queries at most."""
    found: dict[tuple[str, int], str] = {}
    for key, (model, field, _name) in _ROWS.items():
        ids = {job.args[key] for job in jobs if isinstance(job.args.get(key), int)}
        if ids:
            rows = model.objects.filter(pk__in=ids).values_list("pk", field)
            found |= {(key, pk): name for pk, name in rows}
    return found


def job_target(job: Any, names: Mapping[tuple[str, int], str]) -> SafeString | str:
    """Return a link to the file, store or run of a job; a dash for maintenance or if deleted."""
    for key, (_model, _field, name) in _ROWS.items():
        pk = job.args.get(key)
        if (key, pk) in names:
            return page_link(name, pk, names[key, pk])
    run = job.args.get("run_id")
    if job.task_name in _RUNS and isinstance(run, int):
        return page_link(_RUNS[job.task_name], run, _("run %(n)d") % {"n": run})
    return "–"


STATE_LABELS = {
    "todo": (_("waiting"), "idle"),
    "doing": (_("running"), "busy"),
    "succeeded": (_("succeeded"), "good"),
    "failed": (_("failed"), "bad"),
    "cancelled": (_("cancelled"), "idle"),
    "aborted": (_("aborted"), "warn"),
}
NAME, NAME_PLURAL = _("job"), _("jobs")

# The names of the queue's own app are plain English.
apps.get_app_config("procrastinate").verbose_name = _("Queue")
admin.site.unregister(Job)


class StateFilter(admin.SimpleListFilter):
    """By job state."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Return all states, and the one of jobs whose worker has died."""
        states = [(state, text) for state, (text, _colour) in STATE_LABELS.items()]
        return [*states, ("stalled", _("stalled"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "stalled":
            return stalled_jobs(jobs=queryset)
        return queryset.filter(status=self.value()) if self.value() in STATE_LABELS else queryset


class UpkeepFilter(admin.SimpleListFilter):
    """With or, by default, without the periodic maintenance jobs."""

    title = _("upkeep")
    parameter_name = "upkeep"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("with", _("with upkeep"))]

    def choices(self, changelist: Any) -> Any:
        """Yield the choices; the first is called by what it does."""
        first, *others = super().choices(changelist)
        yield {**first, "display": _("without upkeep")}
        yield from others

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset if self.value() else queryset.exclude(queue_name="upkeep")


class JobChangeList(ScopedChangeList):
    """A list under the name that the admin gives its model."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.opts = self.model_admin.opts
        self.title = gettext("Select %s to view") % self.opts.verbose_name


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    """Jobs of files that one may edit; operators see all."""

    list_display = ("task", "concerns", "state", "tries", "last_event")
    list_filter = (StateFilter, UpkeepFilter)
    actions = ("retry", "cancel")
    ordering = ("-id",)
    sortable_by = ()
    fields = (
        "id",
        "task",
        "concerns",
        "arguments",
        "state",
        "tries",
        "held",
        "due",
        "events",
    )
    readonly_fields = fields

    def __init__(self, model: Any, admin_site: Any) -> None:
        super().__init__(model, admin_site)
        # A copy: changing the model's own names would ask for a migration of the queue's app.
        self.opts = copy.copy(self.opts)
        self.opts.verbose_name, self.opts.verbose_name_plural = NAME, NAME_PLURAL

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return JobChangeList

    def readable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        return visible_jobs(scope=scope, rows=queryset)

    def complete_rows(self, rows: list[Any]) -> None:
        """Fetch when something last happened to each job."""
        events = JobEvent.objects.filter(job__in=[row.pk for row in rows])
        last = dict(events.order_by().values_list("job").annotate(at=Max("at")))
        doing = [row.pk for row in rows if row.status == "doing"]
        stalled = Job.objects.filter(pk__in=doing)
        silent = set(stalled_jobs(jobs=stalled).values_list("pk", flat=True)) if doing else set()
        for row in rows:
            row.last_at, row.is_stalled = last.get(row.pk), row.pk in silent
        names = job_target_names(rows)
        for row in rows:
            row.names = names

    def has_steer_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may change files, and so what the queue does with them."""
        return request.user.has_perm("rag.change_file")

    @admin.action(description=_("Begin again"), permissions=["steer"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Queue the chosen jobs that failed, were taken out, or are stalled."""
        n = retry_jobs(scope=scope_for(request), job_ids=row_ids(queryset))
        text = ngettext("%(n)d job was begun again.", "%(n)d jobs were begun again.", n)
        self.message_user(request, text % {"n": n}, messages.SUCCESS if n else messages.WARNING)

    @admin.action(description=_("Remove from the queue"), permissions=["steer"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Cancel the chosen jobs that have not begun."""
        n, n_running = cancel_jobs(scope=scope_for(request), job_ids=row_ids(queryset))
        text = ngettext("%(n)d job was taken out.", "%(n)d jobs were taken out.", n) % {"n": n}
        self.message_user(request, text, messages.SUCCESS if n else messages.WARNING)
        if n_running:
            text = ngettext(
                "%(n)d runs already and goes on.", "%(n)d run already and go on.", n_running
            )
            self.message_user(request, text % {"n": n_running}, messages.WARNING)

    task = column(_("task"), lambda job: task_label(job.task_name))
    concerns = column(
        _("concerns"),
        lambda job: job_target(
            job, job_target_names([job]) if not hasattr(job, "names") else job.names
        ),
    )
    arguments = column(_("arguments"), lambda job: json.dumps(job.args, ensure_ascii=False)[:300])

    @admin.display(description=_("state"))
    def state(self, job: Any) -> SafeString:
        """Return the state in colour."""
        if getattr(job, "is_stalled", False):
            return label(gettext("stalled"), "bad")
        return label(*STATE_LABELS.get(job.status, (job.status, "idle")))

    tries = column(_("tries"), lambda job: int(job.attempts))
    due = column(_("not before"), lambda job: job.scheduled_at)
    held = column(_("lock"), lambda job: job.lock or "")
    last_event = column(_("last change"), lambda job: getattr(job, "last_at", None))

    @admin.display(description=_("events"))
    def events(self, job: Any) -> SafeString:
        """Return what happened, one line each."""
        rows = JobEvent.objects.filter(job=job.pk).order_by("pk")
        lines = "\n".join(
            f"{localtime(row.at):%Y-%m-%d %H:%M:%S} {EVENT_LABELS.get(row.type, row.type)}"
            for row in rows
            if row.at
        )
        return text_block(lines)
