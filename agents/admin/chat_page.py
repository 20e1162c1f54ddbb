"""Chat page: HTML with the agents and stores that the user may ask; the script calls the API."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from agents import models
from agents.admin.chat_login import set_security_headers
from agents.admin.chat_texts import chat_texts
from rag.core.access import Scope
from rag.services.access import scope_of
from rag.services.stores import readable_stores

MAX_AGENTS = 200


@require_safe
@ensure_csrf_cookie
@login_required(login_url="chat-login")
def chat_page(request: HttpRequest) -> HttpResponse:
    """Return the page; strangers are sent to sign in."""
    data = {**_choices(scope_of(request.user)), "texts": chat_texts()}
    context = {"data": data, "is_staff": getattr(request.user, "is_staff", False)}
    return set_security_headers(render(request, "chat/page.html", context))


def _choices(scope: Scope) -> dict[str, Any]:
    """Return the agents that may be asked, and of their stores those that may be read."""
    enabled = models.Agent.objects.readable(scope).filter(is_enabled=True)
    rows = list(enabled.prefetch_related("stores")[:MAX_AGENTS])
    stores = readable_stores(scope=scope)
    slugs = {store.pk: store.slug for store in stores}
    agents = []
    for agent in rows:
        own = [store.pk for store in agent.stores.all()]
        known = [slugs[pk] for pk in own if pk in slugs] if own else list(slugs.values())
        agents.append(
            {
                "name": agent.name,
                "label": str(agent),
                "description": agent.description,
                "stores": known,
            }
        )
    return {
        "agents": agents,
        "stores": [{"slug": store.slug, "name": store.name} for store in stores],
    }
