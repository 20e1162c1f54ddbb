"""URL routes of the agents' resources, below ``/api/``."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver
from rest_framework.routers import SimpleRouter

from agents.api.chat.agents import AgentViews
from agents.api.chat.memories import MemoryViews
from agents.api.chat.sessions import MessageViews, SessionViews
from agents.api.flows.routes import urlpatterns as flow_urls

_router = SimpleRouter(trailing_slash=False)
_router.register("agents", AgentViews, "api-agents")
_router.register("sessions", SessionViews, "api-sessions")
_router.register("messages", MessageViews, "api-messages")
_router.register("memories", MemoryViews, "api-memories")

urlpatterns: list[URLPattern | URLResolver] = [*_router.urls, *flow_urls]
