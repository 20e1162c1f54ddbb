"""Addresses of the resources of agents, below ``/api/``."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver
from rest_framework.routers import SimpleRouter

from agents.api.agent_resource import AgentViews
from agents.api.flow_routes import urlpatterns as flow_urls
from agents.api.memories import MemoryViews
from agents.api.resources import MessageViews, SessionViews

_router = SimpleRouter(trailing_slash=False)
_router.register("agents", AgentViews, "api-agents")
_router.register("sessions", SessionViews, "api-sessions")
_router.register("messages", MessageViews, "api-messages")
_router.register("memories", MemoryViews, "api-memories")

urlpatterns: list[URLPattern | URLResolver] = [*_router.urls, *flow_urls]
