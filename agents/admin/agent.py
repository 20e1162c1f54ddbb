"""Agent admin: identity, retrieval, tools, memory, access, and the agent's graph."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy as _

from agents import models
from agents.admin.agent_form import CONFIG_FIELDS, PREFIX, AgentForm
from agents.chat.agents.agent import render_agent_graph
from agents.chat.agents.save import delete_agent, save_agent
from rag.admin.ui.cells import column, label
from rag.admin.ui.group_field import OwnedAdmin
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.scoped import scope_for
from rag.core.errors import RAGError
from rag.services.stores import readable_stores

WHO = ("name", "display_name", "description", "agent_type", "agent_role", "is_enabled")
HOW = ("model", "prompt", "temperature", "max_iterations", "stores")
ACCESS = ("owner", "is_public", "reader_groups", "editor_groups")

_TALK = (
    "history_turns",
    "summary_tokens",
    "session_titles",
    "enable_memory",
    "memory_project",
    "memory_tokens",
    "page_tokens",
)
_TOOLS = (
    "tools",
    "sources",
    "mcp_servers",
    "agents",
    "tool_calling",
    "enable_fast_path",
    "fast_path_confidence",
    "max_tool_calls",
    "run_tokens",
)
GROUPS = {**dict.fromkeys(_TALK, "talk"), **dict.fromkeys(_TOOLS, "tools")}


@admin.register(models.Agent)
class AgentAdmin(OwnedAdmin):
    """The agents that one may ask; what one may edit can be changed."""

    change_form_before_template = "admin/rag/seen_field.html"
    form = AgentForm
    list_display = (
        "title",
        "name",
        "agent_type",
        "state",
        "visibility",
        "model",
        "updated_at",
        "ask",
    )
    search_fields = ("name", "display_name", "description")
    list_filter = ("agent_type", "is_enabled")
    sortable_by = ("name", "updated_at")
    autocomplete_fields = ("owner",)
    readonly_fields = ("picture", "created_at", "updated_at")

    class Media:
        css = {"all": ("agents/admin/agents.css",)}

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fieldsets; readers do not see what editors have written."""
        facts = [(_("Inside"), {"fields": ["picture", "created_at", "updated_at"]})] if obj else []
        # Whoever only reads an agent is not shown what its editors have written.
        may_edit = obj is None or self.may_edit(request, obj)
        return [
            (None, {"fields": [*WHO]}),
            (_("How it answers"), {"fields": [*HOW] if may_edit else ["temperature"]}),
            *(_config_sets() if may_edit else []),
            *([(_("Who may ask and edit"), {"fields": [*ACCESS]})] if may_edit else []),
            *facts,
        ]

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Return a field that offers only the groups and stores that this user may know."""
        field: Any = super().formfield_for_manytomany(db_field, request, **kwargs)
        if db_field.name == "stores":
            stores = readable_stores(scope=scope_for(request), limit=1000)
            field.queryset = field.queryset.filter(pk__in=[store.pk for store in stores])
        return field

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Make or change the agent by the service."""
        scope = scope_for(request)
        plain = [*WHO, "model", "prompt", "temperature", "max_iterations", "is_public"]
        values = {name: form.cleaned_data[name] for name in plain if name in form.cleaned_data}
        values["config"] = form.config()
        values |= {
            name: form.cleaned_data[name]
            for name in ("reader_groups", "editor_groups")
            if name in form.cleaned_data
        }
        if scope.is_operator and "owner" in form.cleaned_data:
            values["owner"] = form.cleaned_data["owner"]
        stores = None
        if "stores" in form.cleaned_data:
            stores = [store.resource_name for store in form.cleaned_data["stores"]]
        before = models.Agent.objects.get(pk=obj.pk) if change else None
        saved = save_agent(
            scope=scope,
            values=values,
            agent=before,
            stores=stores,
            owner=obj.owner or request.user,
        )
        obj.__dict__.update(saved.__dict__)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Do nothing: the service has set groups and stores."""

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete by the service, which keeps those that are built in."""
        delete_agent(agent=obj, scope=scope_for(request))

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Show or save the form; what a service refuses is a message, not a crash."""
        try:
            return super().changeform_view(request, *args, **kwargs)
        except RAGError as error:
            self.message_user(request, error_sentence(error), messages.ERROR)
            return redirect(request.get_full_path())

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        """Ask and delete; what the service refuses is a message."""
        try:
            return super().delete_view(request, object_id, extra_context)
        except RAGError as error:
            self.message_user(request, error_sentence(error), messages.ERROR)
            return redirect(reverse("admin:agents_agent_changelist"))

    title = column(_("agent"), lambda agent: str(agent))
    state = column(
        _("state"),
        lambda agent: label(_("on"), "good") if agent.is_enabled else label(_("off"), "idle"),
    )
    ask = column(
        _("go to"),
        lambda agent: format_html(
            '<a class="desk-link" href="{}">{}</a>', reverse("chat"), _("Ask")
        ),
    )
    picture = column(_("steps"), lambda agent: mark_safe(render_agent_graph(agent=agent)))


def _config_sets() -> list[tuple[Any, dict[str, Any]]]:
    """Return the config's fields in groups; one that is in no group is shown with the search."""
    groups: dict[str, list[str]] = {"search": [], "talk": [], "tools": [], "limits": []}
    for field in CONFIG_FIELDS:
        name = field.removeprefix(PREFIX)
        key = "limits" if name.endswith("_timeout_s") else GROUPS.get(name, "search")
        groups[key].append(field)
    titles = {
        "search": _("Search and sources"),
        "talk": _("Conversation and memory"),
        "tools": _("Tools and other agents"),
        "limits": _("Timeouts"),
    }
    return [
        (title, {"fields": groups[key], **({} if key == "search" else {"classes": ["collapse"]})})
        for key, title in titles.items()
    ]
