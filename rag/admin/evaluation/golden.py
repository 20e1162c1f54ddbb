"""Golden questions in the admin: list, form with expected passages, CSV import and export."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from django.contrib import admin, messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from rag import models
from rag.admin.evaluation.golden_form import (
    GoldenImportPage,
    GoldenQuestionForm,
    GoldenTargetForm,
    GoldenTargetFormSet,
)
from rag.admin.ui.cells import column, label, page_link
from rag.admin.ui.filters import ConditionFilter, StoreListFilter
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import OfStoreAdmin, row_ids, scope_for
from rag.admin.ui.theme import TabularInline
from rag.models.file import LARGE_FILE_FIELDS
from rag.services.evaluation import export_questions
from rag.services.files import stream_lines

_EXPECTS = Q(pk__in=models.GoldenTarget.objects.values("question"))


class ExpectationFilter(ConditionFilter):
    """By whether any passage is expected; deleted chunks and files take their targets along."""

    title = _("expected passages")
    parameter_name = "expects"
    conditions = {"some": (_("with"), _EXPECTS), "none": (_("without"), ~_EXPECTS)}


class GoldenTargetInline(TabularInline):
    """The expected passages of a question, with the question's permissions."""

    model = models.GoldenTarget
    form = GoldenTargetForm
    formset = GoldenTargetFormSet
    fields = ("chunk", "file", "grade", "seen")
    autocomplete_fields = ("chunk", "file")
    hide_title = True
    extra = 1

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields; the state for the conflict check only with the right to change."""
        may = self.has_change_permission(request, obj)
        return [name for name in self.fields if may or name != "seen"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows with their names, without texts."""
        rows = super().get_queryset(request).select_related("file", "chunk")
        return rows.defer("chunk__text", *LARGE_FILE_FIELDS)

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Return a field of readable rows: a form that comes back names what was chosen in it."""
        if db_field.name in ("chunk", "file"):
            rows = db_field.related_model.objects.readable(scope_for(request))
            if db_field.name == "chunk":
                rows = rows.select_related("file").defer(*LARGE_FILE_FIELDS)
            kwargs["queryset"] = rows
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("rag.view_goldenquestion")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        verb = "add" if obj is None else "change"
        return request.user.has_perm(f"rag.{verb}_goldenquestion")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("rag.change_goldenquestion")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("rag.change_goldenquestion")


@admin.register(models.GoldenQuestion)
class GoldenQuestionAdmin(OfStoreAdmin):
    """Questions to the stores that one may edit."""

    form = GoldenQuestionForm
    change_form_before_template = "admin/rag/seen_field.html"
    list_display = ("question", "store", "n_expected", "origin", "is_on", "updated_at", "links")
    list_select_related = ("store",)
    list_filter = (StoreListFilter, ExpectationFilter, "enabled", "origin")
    search_fields = ("query", "note")
    sortable_by = ("updated_at",)
    actions = ("enable", "disable", "export_chosen")
    fields = ("store", "query", "enabled", "note", "origin", "created_by", "created_at")
    readonly_fields = ("origin", "created_by", "created_at")
    inlines = (GoldenTargetInline,)
    list_before_template = "admin/rag/golden_links.html"

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return what is fixed: a question stays with its store, where its passages are."""
        return [*self.readonly_fields, *(["store"] if obj else [])]

    def complete_rows(self, rows: list[Any]) -> None:
        """Count what each question expects: one query for the page."""
        targets = models.GoldenTarget.objects.filter(question__in=rows).order_by()
        counts = dict(targets.values_list("question").annotate(n=Count("pk")))
        for row in rows:
            row.n_targets = counts.get(row.pk, 0)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save, with who wrote it."""
        obj.query = obj.query.strip()
        if not change:
            obj.created_by = request.user
        super().save_model(request, obj, form, change)

    def pages(self) -> Sequence[tuple[str, Any, str]]:
        return (
            ("import/", GoldenImportPage, "rag_goldenquestion_import"),
            ("export/", self.export_view, "rag_goldenquestion_export"),
        )

    def export_view(self, request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
        """Return the readable questions as CSV, those of ``?store=`` alone if it is given."""
        if not self.has_view_permission(request):
            return HttpResponse(status=403)
        rows = self.get_queryset(request)
        if store := request.GET.get("store"):
            rows = rows.filter(store=parse_int(store))
        return _download(rows)

    @admin.action(description=_("Export as CSV"), permissions=["view"])
    def export_chosen(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        """Return the chosen questions as CSV."""
        return _download(queryset)

    @admin.action(description=_("Enable: measured"), permissions=["change"])
    def enable(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Let the chosen questions be measured."""
        self._switch(request, queryset, True)

    @admin.action(description=_("Disable: not measured"), permissions=["change"])
    def disable(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Leave the chosen questions out of evaluations."""
        self._switch(request, queryset, False)

    def _switch(self, request: HttpRequest, queryset: QuerySet[Any], enabled: bool) -> None:
        rows = models.GoldenQuestion.objects.filter(pk__in=row_ids(queryset))
        n = rows.exclude(enabled=enabled).update(enabled=enabled)
        text = ngettext("%(n)d question was switched.", "%(n)d questions were switched.", n)
        self.message_user(request, text % {"n": n}, messages.SUCCESS if n else messages.WARNING)

    question = column(_("question"), lambda row: Truncator(row.query).chars(120))
    n_expected = column(
        _("expected passages"), lambda row: getattr(row, "n_targets", 0) or label("0", "warn")
    )
    is_on = column(
        _("state"), lambda row: label(_("on"), "good") if row.enabled else label(_("off"), "idle")
    )
    links = column(
        _("go to"),
        lambda row: page_link("rag_store_search", row.store_id, _("Hit test"), q=row.query),
    )


def _download(rows: QuerySet[Any]) -> StreamingHttpResponse:
    lines = chain(["\ufeff"], export_questions(questions=rows))
    pieces = stream_lines(lines=lines)
    response = StreamingHttpResponse(pieces, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="golden-questions.csv"'
    return response
