"""Permissions to send out in the admin: consents of people to look at, approvals to make."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from agents import models
from agents.chat.agents.agent_exposure import agent_exposure
from agents.flows.runs.flow_exposure import flow_exposure
from agents.flows.versions.load import compiled_graph
from agents.flows.versions.versions import active_version
from rag.admin.ui.cells import column
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.scoped import SuperuserAdmin
from rag.core.access import Scope
from rag.core.errors import RAGError


class _ApprovalForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable at run time
    class Meta:
        model = models.OutboundGrant
        fields = ("agent", "flow", "stores")

    def clean(self) -> dict[str, Any]:
        """Take the hosts that the agent or flow calls now: no others are approved."""
        given: dict[str, Any] = super().clean() or self.cleaned_data
        agent, flow = given.get("agent"), given.get("flow")
        if (agent is None) == (flow is None):
            raise forms.ValidationError(_("Choose an agent or a flow."))
        try:
            self.instance.hosts = _hosts(agent, flow)
        except RAGError as error:
            raise forms.ValidationError(error_sentence(error)) from error
        if not self.instance.hosts:
            raise forms.ValidationError(_("It calls no host: there is nothing to approve."))
        return given


def _hosts(agent: models.Agent | None, flow: models.Flow | None) -> list[str]:
    if agent is not None:
        return sorted(agent_exposure(agent=agent, scope=Scope.operator()).hosts)
    if flow is None:
        return []
    definition = compiled_graph(version=active_version(flow=flow)).flow
    scope = Scope.operator()
    return sorted(flow_exposure(flow=flow, definition=definition, scope=scope).hosts)


@admin.register(models.OutboundGrant)
class OutboundGrantAdmin(SuperuserAdmin):
    """Made and taken back by superusers; the hosts are those of the moment."""

    form = _ApprovalForm
    list_display = ("of_whom", "told", "user", "created_at")
    list_select_related = ("agent", "flow", "user")
    autocomplete_fields = ("agent", "stores")
    readonly_fields = ("hosts", "user", "granted_by", "created_at")
    fields = ("agent", "flow", "stores", *readonly_fields)

    of_whom = column(_("agent or flow"), lambda grant: str(grant.agent or grant.flow))
    told = column(_("hosts"), lambda grant: ", ".join(grant.hosts))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Keep who approved it."""
        obj.granted_by = request.user
        super().save_model(request, obj, form, change)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether it is an approval: a consent is its person's own."""
        return bool(request.user.is_superuser) and getattr(obj, "user_id", None) is None
