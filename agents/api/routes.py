"""URL routes of the agents' resources, below ``/api/``."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path
from rest_framework.routers import SimpleRouter

from agents.api.chat.agents import AgentViews
from agents.api.chat.memories import MemoryViews
from agents.api.chat.sessions import MessageViews, SessionViews
from agents.api.flows.flows import FlowViews
from agents.api.flows.versions import RunViews, VersionViews

_router = SimpleRouter(trailing_slash=False)
_router.register("agents", AgentViews, "api-agents")
_router.register("sessions", SessionViews, "api-sessions")
_router.register("messages", MessageViews, "api-messages")
_router.register("memories", MemoryViews, "api-memories")
_router.register("flows", FlowViews, "api-flows")
_VERSIONS = "flows/<str:flow>/versions"
_RUNS = "flows/<str:flow>/runs"

urlpatterns: list[URLPattern | URLResolver] = [
    *_router.urls,
    path(_VERSIONS, VersionViews.as_view({"get": "list"}), name="api-flow-versions"),
    path(
        f"{_VERSIONS}/<int:number>",
        VersionViews.as_view({"get": "retrieve"}),
        name="api-flow-version",
    ),
    path(
        f"{_VERSIONS}/<int:number>/activate",
        VersionViews.as_view({"post": "activate"}),
        name="api-flow-activate",
    ),
    path(
        f"{_VERSIONS}/<int:number>/diff",
        VersionViews.as_view({"get": "diff"}),
        name="api-flow-diff",
    ),
    path(
        "flows/<str:flow>/rollback",
        VersionViews.as_view({"post": "rollback"}),
        name="api-flow-rollback",
    ),
    path(_RUNS, RunViews.as_view({"get": "list"}), name="api-flow-runs"),
    path(f"{_RUNS}/<str:key>", RunViews.as_view({"get": "retrieve"}), name="api-flow-run"),
]
