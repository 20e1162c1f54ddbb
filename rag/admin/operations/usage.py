"""Usage ledger and budgets: tokens and cost by day, model and user, and limits of API keys."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.ui.cells import column
from rag.admin.ui.filters import FieldFilter
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.scoped import ReadOnlyAdmin, ScopedAdmin, scope_for
from rag.core.access import Scope
from rag.core.errors import RAGError
from rag.services.usage import UsageQuery, save_budget, usage_report

DAYS = 30
GROUPS = (("day", _("day")), ("model", _("model")), ("user", _("user")))
_ROWS = 12
N_NEWEST = 2000


class ProviderFilter(FieldFilter):
    """By provider: those of the newest calls are offered, since the whole ledger may be long."""

    title = _("provider")
    parameter_name = "provider"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the providers that were called of late."""
        newest = model_admin.get_queryset(request).order_by("-pk")
        names = set(newest.values_list("provider", flat=True)[:N_NEWEST])
        return [(name, name) for name in sorted(names)]


@admin.register(models.UsageRecord)
class UsageRecordAdmin(ReadOnlyAdmin):
    """One's own calls and those of one's keys; superusers see all. The sums stand above."""

    list_display = (
        "created_at",
        "kind",
        "model",
        "input_tokens",
        "output_tokens",
        "money",
        "outcome",
        "user",
        "key",
        "store",
        "agent",
    )
    list_select_related = ("user", "key", "store")
    list_filter = ("kind", "outcome", ProviderFilter, "is_estimated", "created_at")
    search_fields = ("model", "agent", "run", f"user__{get_user_model().USERNAME_FIELD}")
    sortable_by = ("created_at",)
    fields = (
        "created_at",
        "kind",
        "provider",
        "model",
        "input_tokens",
        "output_tokens",
        "is_estimated",
        "money",
        "outcome",
        "duration_ms",
        "prompt",
        "user",
        "key",
        "store",
        "agent",
        "run",
    )
    readonly_fields = ("money", "prompt")
    list_before_template = "admin/rag/usage_sums.html"

    class Media:
        css = {"all": ("rag/admin/insight.css",)}

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the sums of the last 30 days above the list."""
        scope, now = scope_for(request), timezone.now()
        sums = [(title, name, _sums(name, scope, now)) for name, title in GROUPS]
        context = {**(extra_context or {}), "usage_sums": sums, "usage_days": DAYS}
        return super().changelist_view(request, context)

    prompt = column(_("hash of the prompt"), lambda row: row.prompt_sha256 or "–")
    money = column(
        _("cost"), lambda row: "–" if row.cost is None else f"{row.cost:.6f} {row.currency}"
    )


class BudgetForm(ModelForm):  # type: ignore[type-arg]
    """Checks a budget as the service will."""

    class Meta:
        model = models.Budget
        fields = ("key", "period", "max_tokens", "max_cost", "currency")

    def clean(self) -> dict[str, Any]:
        """Refuse a budget that limits nothing."""
        values = super().clean() or {}
        if values.get("max_tokens") is None and values.get("max_cost") is None:
            raise ValidationError(_("Set tokens, money, or both."))
        return values


@admin.register(models.Budget)
class BudgetAdmin(ScopedAdmin):
    """What keys may use up; owners of keys see it, superusers set it."""

    form = BudgetForm
    list_display = (
        "key",
        "period",
        "max_tokens",
        "spent_tokens",
        "max_cost",
        "spent_cost",
        "currency",
    )
    list_select_related = ("key__user",)
    list_filter = ("period",)
    autocomplete_fields = ("key",)
    readonly_fields = ("spent_tokens", "spent_cost", "period_start")

    def readable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        return queryset if scope.is_operator else queryset.filter(key__user_id=scope.user_id)

    def editable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        return queryset if scope.is_operator else queryset.none()

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return whether the caller is an operator: nobody sets a budget for themselves."""
        return scope_for(request).is_operator and super().has_add_permission(request)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save by the service, which counts what was used already."""
        try:
            save_budget(budget=obj)
        except RAGError as error:
            self.message_user(request, error_sentence(error), "error")


def _sums(name: str, scope: Scope, now: Any) -> list[dict[str, Any]]:
    question = UsageQuery(now - timedelta(days=DAYS), now + timedelta(days=1), [name])
    rows: list[dict[str, Any]] = usage_report(question=question, scope=scope)["rows"]
    rows = rows[::-1] if name == "day" else sorted(rows, key=lambda row: -row["calls"])
    return [
        {
            **row,
            "name": row[name] or "–",
            "money": ", ".join(f"{n:.4f} {currency}" for currency, n in row["cost"].items()) or "–",
        }
        for row in rows[:_ROWS]
    ]
