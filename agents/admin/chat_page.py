"""Chat page: HTML with the user's agents and stores, the translated texts of its script.

Readers may have no access to the admin; strict security headers go with every answer.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from agents import models
from rag.core.access import Scope
from rag.services.access import scope_of
from rag.services.stores import readable_stores

MAX_AGENTS = 200
# No inline scripts, nothing from other origins: text of a model or document cannot run code.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


# Every text of the script, which fills ``{name}``.
TEXTS = {
    "all_stores": _("All its stores"),
    "no_agent": _("There is no agent that you may ask. Ask an administrator for one."),
    "no_sessions": _("No conversations yet"),
    "none_found": _("No conversation holds these words."),
    "you": _("Question"),
    "answer": _("Answer"),
    "new": _("New conversation"),
    "delete": _("Delete"),
    "delete_sure": _("Delete the conversation “{title}” with all its messages?"),
    "rename": _("Rename"),
    "new_title": _("A new title"),
    "looking": _("Looking for sources…"),
    "writing": _("Writing…"),
    "reconnecting": _("The connection was lost. Trying again…"),
    "lost": _("The connection was lost. Reload the page to see the answer."),
    "signed_out": _("You are not signed in any more. Reload the page and sign in."),
    "failed": _("The server could not answer. Try again."),
    "consent": _("I consent"),
    "consented": _("Consented. Send your question again."),
    "too_long": _("The answer is still being written. Stop it, or wait."),
    "other_agent": _("This conversation is with another agent, which you may not ask now."),
    "stopped": _("Stopped. What was written stays."),
    "copy": _("Copy"),
    "copied": _("Copied"),
    "regenerate": _("Regenerate"),
    "edit": _("Edit question"),
    "go_on": _("Branch from here"),
    "going_on": _("The conversation goes on from the marked answer."),
    "before": _("The version before"),
    "after": _("The next version"),
    "version": _("Version {n} of {all}"),
    "good": _("Helpful answer"),
    "bad": _("Unhelpful answer"),
    "good_short": _("Helpful"),
    "bad_short": _("Not helpful"),
    "comment": _("What was good or wrong? (optional)"),
    "save": _("Save"),
    "cancel": _("Cancel"),
    "thanks": _("Thank you. Your opinion is kept with the answer."),
    "rewritten": _("Searched for: {query}"),
    "dropped": _("Sentences without a source that were left out: {n}"),
    "kept": _("The answer was to be repaired, and stayed as it was: nothing better came."),
    "sources": _("Sources searched: {n}"),
    "citations": _("Quotes"),
    "page": _("Page {n}"),
    "open_quote": _("Show where quote {n} stands"),
    "verified": _("verified"),
    "abridged": _("abridged"),
    "altered": _("altered"),
    "wrong_document": _("wrong document"),
    "unknown": _("not found"),
    "about_verified": _("The source says exactly this."),
    "about_abridged": _("The source says this; where the quote has an ellipsis it says more."),
    "about_altered": _("The source says it a little differently; its own words are marked."),
    "about_wrong_document": _("The words stand in another document than the one named."),
    "about_unknown": _("No source that was searched says this."),
    "grounding": _("{n} of {all} statements found in the sources"),
    "grounding_one": _("{n} of 1 statement found in the sources"),
    "unsupported": _("not found in the sources"),
    "contradicted": _("the source says otherwise"),
    "claim": _("What the answer says"),
    "quote": _("What it quotes"),
    "text": _("Text"),
    "picture": _("Picture of the page"),
    "picture_of": _("Page {n} of {name}; what is quoted is marked"),
    "drawing": _("The page is being drawn…"),
    "no_marks": _("The quote was not found on the picture of the page."),
    "origin": _("Open the original"),
    "changed": _("The file has changed since. This is the passage as it was quoted."),
    "zoom": _("Zoom"),
    "loading": _("Loading…"),
}


def set_security_headers(response: HttpResponse) -> HttpResponse:
    """Return the response with a strict CSP, ``no-store`` and a same-origin referrer policy."""
    response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    response["Cache-Control"] = "no-store"
    response["Referrer-Policy"] = "same-origin"
    return response


@require_safe
@ensure_csrf_cookie
@login_required
def chat_page(request: HttpRequest) -> HttpResponse:
    """Return the page; strangers are sent to sign in."""
    data = {
        **_choices(scope_of(request.user)),
        "texts": {name: str(text) for name, text in TEXTS.items()},
    }
    context = {
        "data": data,
        "is_staff": getattr(request.user, "is_staff", False),
        "second_factor": settings.SECOND_FACTOR != "off",
    }
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
                "description": agent.about,
                "stores": known,
            }
        )
    return {
        "agents": agents,
        "stores": [{"slug": store.slug, "name": store.name} for store in stores],
    }
