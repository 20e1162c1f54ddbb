"""The queue's jobs, to look at: what waits, runs and failed. Files are retried on their list."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib import admin
from django.db.models import CharField, Max, QuerySet, Value
from django.db.models.functions import Cast, Concat
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy
from procrastinate.contrib.django.models import ProcrastinateEvent, ProcrastinateJob

from rag import models
from rag.admin.cells import label
from rag.admin.scoped import ReadOnlyAdmin, ScopedChangeList
from rag.core.access import Scope

if TYPE_CHECKING:
    from django.contrib.admin.views.main import ChangeList

STATES = {
    "todo": (gettext_lazy("waiting"), "idle"),
    "doing": (gettext_lazy("running"), "busy"),
    "succeeded": (gettext_lazy("succeeded"), "good"),
    "failed": (gettext_lazy("failed"), "bad"),
    "cancelled": (gettext_lazy("cancelled"), "idle"),
    "aborted": (gettext_lazy("aborted"), "warn"),
}
NAME, NAME_PLURAL = gettext_lazy("job"), gettext_lazy("jobs")

# The names of the queue's own app are plain English.
apps.get_app_config("procrastinate").verbose_name = gettext_lazy("Queue")
admin.site.unregister(ProcrastinateJob)


class StateFilter(admin.SimpleListFilter):
    """By state, in words of ours."""

    title = gettext_lazy("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Return all states."""
        return [(state, text) for state, (text, _colour) in STATES.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the jobs of the chosen state."""
        return queryset.filter(status=self.value()) if self.value() else queryset


class JobChangeList(ScopedChangeList):
    """A list under the name that the admin gives its model."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.opts = self.model_admin.opts
        self.title = gettext("Select %s to view") % self.opts.verbose_name


@admin.register(ProcrastinateJob)
class JobAdmin(ReadOnlyAdmin):
    """Jobs of files that one may edit; operators see all."""

    list_display = ("id", "task", "arguments", "state", "tries", "last_event", "due")
    list_filter = (StateFilter,)
    ordering = ("-id",)
    sortable_by = ()
    fields = (
        "id",
        "task",
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
        """Return the list that is named in our words."""
        return JobChangeList

    def readable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        """Return the jobs that work on editable files."""
        if scope.is_operator:
            return queryset
        name = Concat(Value("file:"), Cast("pk", CharField()))
        files = models.File.objects.editable(scope).annotate(lock=name)
        return queryset.filter(lock__in=files.values("lock"))

    def complete_rows(self, rows: list[Any]) -> None:
        """Fetch when something last happened to each job."""
        events = ProcrastinateEvent.objects.filter(job__in=[row.pk for row in rows])
        last = dict(events.order_by().values_list("job").annotate(at=Max("at")))
        for row in rows:
            row.last_at = last.get(row.pk)

    @admin.display(description=gettext_lazy("task"))
    def task(self, job: Any) -> str:
        """Return the task's name."""
        return str(job.task_name)

    @admin.display(description=gettext_lazy("arguments"))
    def arguments(self, job: Any) -> str:
        """Return the arguments as JSON, long ones cut."""
        return json.dumps(job.args, ensure_ascii=False)[:300]

    @admin.display(description=gettext_lazy("state"))
    def state(self, job: Any) -> SafeString:
        """Return the state in colour."""
        return label(*STATES.get(job.status, (job.status, "idle")))

    @admin.display(description=gettext_lazy("tries"))
    def tries(self, job: Any) -> int:
        """Return how often the job was begun."""
        return int(job.attempts)

    @admin.display(description=gettext_lazy("not before"))
    def due(self, job: Any) -> Any:
        """Return the time that the job waits for."""
        return job.scheduled_at

    @admin.display(description=gettext_lazy("lock"))
    def held(self, job: Any) -> str:
        """Return what no two jobs may work on at once."""
        return job.lock or ""

    @admin.display(description=gettext_lazy("last change"))
    def last_event(self, job: Any) -> Any:
        """Return when something last happened."""
        return getattr(job, "last_at", None)

    @admin.display(description=gettext_lazy("events"))
    def events(self, job: Any) -> SafeString:
        """Return what happened, one line each."""
        rows = ProcrastinateEvent.objects.filter(job=job.pk).order_by("pk")
        lines = "\n".join(f"{row.at:%Y-%m-%d %H:%M:%S} {row.type}" for row in rows if row.at)
        return format_html('<pre class="desk-text">{}</pre>', lines)
