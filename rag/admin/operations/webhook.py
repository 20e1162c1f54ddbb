"""Webhooks in the admin: their form, their secret, and the log of what was sent to them."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.validators import URLValidator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.ui.cells import column, label
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.scoped import KeptMakerAdmin, SuperuserAdmin
from rag.admin.ui.theme import CheckboxSelectMultiple
from rag.services.webhooks import retry_deliveries, send_test_event, webhook_secret

_SENT_BY_ITSELF = [one for one in models.Webhook.Event.choices if one[0] != "test"]


class _WebhookForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable at run time
    events = forms.MultipleChoiceField(
        label=_("events"), choices=_SENT_BY_ITSELF, widget=CheckboxSelectMultiple
    )
    url = forms.URLField(
        label=_("address"),
        max_length=500,
        assume_scheme="https",
        validators=[URLValidator(schemes=["http", "https"])],
    )

    class Meta:
        model = models.Webhook
        fields = ("name", "url", "events", "is_enabled")


def delivery_state(row: models.WebhookDelivery) -> Any:
    """Return where a delivery stands, as a label."""
    if row.delivered_at:
        return label(_("delivered"), "good")
    if row.next_at is None:
        return label(_("given up"), "bad")
    return label(_("waiting"), "busy" if not row.n_attempts else "idle")


@admin.register(models.Webhook)
class WebhookAdmin(KeptMakerAdmin):
    """Made by superusers alone: what they are told comes from all stores and agents."""

    form = _WebhookForm
    list_display = ("name", "url", "is_enabled", "created_at")
    change_form_outer_before_template = "admin/rag/webhook_overview.html"
    actions = ("send_test",)

    @admin.action(description=_("Send a test event"))
    def send_test(self, request: HttpRequest, queryset: QuerySet[models.Webhook]) -> None:
        """Queue a test event for each; the log shows what came of it."""
        for webhook in queryset:
            send_test_event(webhook=webhook)
        self.message_user(request, gettext("Queued. The log of deliveries shows what came of it."))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show the secret and the last deliveries above the form."""
        webhook = self.get_object(request, object_id)
        if webhook is not None:
            last = webhook.deliveries.all()[:10]
            rows = [(one, delivery_state(one), error_sentence(one.error)) for one in last]
            overview = {"secret": webhook_secret(webhook=webhook), "rows": rows, "id": webhook.pk}
            extra_context = {**(extra_context or {}), "overview": overview}
        return super().change_view(request, object_id, form_url, extra_context)


@admin.register(models.WebhookDelivery)
class WebhookDeliveryAdmin(SuperuserAdmin):
    """The log of deliveries, of the last 30 days; ended ones can be sent again."""

    list_display = ("event", "webhook", "state", "n_attempts", "created_at", "next_at", "told")
    list_select_related = ("webhook",)
    list_filter = ("webhook", "event")
    sortable_by = ()
    fields = (
        "event",
        "webhook",
        "key",
        "data",
        "state",
        "n_attempts",
        "told",
        "created_at",
        "next_at",
        "delivered_at",
    )
    readonly_fields = fields
    actions = ("send_again",)

    state = column(_("state"), delivery_state)
    told = column(_("error"), lambda row: error_sentence(row.error) or "–")

    @admin.action(description=_("Send again"))
    def send_again(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Let deliveries without success begin again."""
        n = retry_deliveries(ids=list(queryset.values_list("pk", flat=True)))
        told = ngettext("%(n)d delivery is sent again.", "%(n)d deliveries are sent again.", n)
        level = messages.SUCCESS if n else messages.WARNING
        self.message_user(request, told % {"n": n}, level)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
