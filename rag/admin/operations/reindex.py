"""Reindex runs: ordered here or by command, looked at, steered."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.ui.cells import label
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.scoped import ScopedAdmin, scope_for
from rag.core.access import Scope
from rag.core.errors import RAGError
from rag.services.reindex.move import force_run, roll_back_run
from rag.services.reindex.move_end import cancel_run, retire_run
from rag.services.reindex.runs import RunOptions, queue_run, start_run
from rag.services.reindex.worker import resume_run

COLOURS = {
    "waiting": "idle",
    "running": "busy",
    "ready": "warn",
    "refused": "bad",
    "swapped": "good",
    "done": "good",
    "failed": "bad",
    "cancelled": "idle",
}


class RunForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic at run time
    """A store and what is made anew of it."""

    is_forced = forms.BooleanField(
        label=_("swap whatever the quality gate says"),
        required=False,
        help_text=_("Only for a move to another model; the run tells who decided it."),
    )

    class Meta:
        model = models.ReindexRun
        fields = ("store", "what", "model")

    def validate_unique(self) -> None:
        """Leave it to the order itself, which knows when two are one."""

    def validate_constraints(self) -> None:
        """Leave it to the order itself."""


@admin.register(models.ReindexRun)
class ReindexRunAdmin(ScopedAdmin):
    """The runs of stores that one may change."""

    form = RunForm
    list_display = (
        "id",
        "store",
        "what",
        "model",
        "told_state",
        "done",
        "created_by",
        "created_at",
    )
    list_select_related = ("store", "created_by")
    list_filter = ("state", "what")
    sortable_by = ()
    actions = ("resume", "cancel", "swap", "roll_back", "retire")
    told = (
        "told_state",
        "stage",
        "done",
        "target",
        "why",
        "facts",
        "created_by",
        "created_at",
        "started_at",
        "swapped_at",
        "ended_at",
    )

    def editable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        """Return the runs that ``scope`` sees: those of stores that it may change."""
        return self.readable(queryset, scope)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the order's fields, and what became of it."""
        return ["store", "what", "model", *(self.told if obj else ["is_forced"])]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return all fields of a run that was ordered."""
        return ["store", "what", "model", *self.told] if obj else []

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: runs are kept."""
        return False

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Offer the stores that one may change."""
        if db_field.name == "store":
            stores = models.Store.objects.editable(scope_for(request))
            kwargs["queryset"] = stores.filter(backend=models.Store.Backend.LOCAL)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        """Return a form that orders the run when all of it is valid."""
        made = super().get_form(request, obj, change, **kwargs)

        class Ordering(made):  # type: ignore[misc, valid-type]
            def clean(self) -> Any:
                values = super().clean()
                if obj is None and values and not self.errors:
                    self.ordered = _ordered(request, values)
                return values

        return Ordering

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Queue the run that the form has ordered."""
        run = form.ordered
        queue_run(run_id=run.pk)
        obj.__dict__.update(run.__dict__)

    def save_related(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: a run has no rows below it."""

    @admin.action(description=_("Go on with the failed run"), permissions=["change"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Queue failed runs again."""
        self._each(request, queryset, lambda run: queue_run(run_id=resume_run(run=run).pk))

    @admin.action(description=_("Cancel the run"), permissions=["change"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Stop runs; what a move has built is removed."""
        self._each(request, queryset, lambda run: cancel_run(run=run))

    @admin.action(description=_("Swap to the new model, even if refused"), permissions=["change"])
    def swap(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Let the stores stand on their new spaces."""
        self._each(request, queryset, lambda run: force_run(run=run, by=request.user))

    @admin.action(description=_("Roll back to the old model"), permissions=["change"])
    def roll_back(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Let the stores stand on their old spaces again."""
        self._each(request, queryset, lambda run: roll_back_run(run=run))

    @admin.action(description=_("Give the old model's vectors up"), permissions=["change"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Remove the old spaces, ten minutes after the swap at the earliest."""
        self._each(request, queryset, lambda run: retire_run(run=run))

    def _each(
        self, request: HttpRequest, queryset: QuerySet[Any], deed: Callable[[Any], Any]
    ) -> None:
        runs = queryset.select_related("store", "source", "target", "created_by")
        for run in runs:
            try:
                deed(run)
            except RAGError as error:
                self.message_user(request, error_sentence(error), messages.ERROR)

    @admin.display(description=_("state"))
    def told_state(self, run: models.ReindexRun) -> SafeString:
        """Return the state in colour."""
        return label(run.get_state_display(), COLOURS.get(run.state, "idle"))

    @admin.display(description=_("done"))
    def done(self, run: models.ReindexRun) -> str:
        """Return how much of the present stage is done."""
        return f"{run.n_done} / {run.n_total}" if run.n_total else "–"

    @admin.display(description=_("error"))
    def why(self, run: models.ReindexRun) -> str:
        """Return why a run failed or was refused."""
        return error_sentence(RAGError.from_dict(run.error)) if run.error else "–"

    @admin.display(description=_("report"))
    def facts(self, run: models.ReindexRun) -> SafeString:
        """Return recall and the figures of both spaces."""
        text = json.dumps(run.report, ensure_ascii=False, indent=1)
        return format_html('<pre class="desk-text">{}</pre>', text)


def _ordered(request: HttpRequest, values: dict[str, Any]) -> models.ReindexRun:
    try:
        run, _is_new = start_run(
            scope=scope_for(request),
            store=values["store"],
            what=values["what"],
            model=values.get("model") or "",
            options=RunOptions(is_forced=bool(values.get("is_forced"))),
        )
    except RAGError as error:
        raise ValidationError(error_sentence(error)) from error
    return run
