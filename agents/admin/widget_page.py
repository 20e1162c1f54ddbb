"""Widget as it is served: the loader script for other sites, and the chat page in their frame.

Browsers hold the page to the widget's origins by ``frame-ancestors``; the loader only says in words
why nothing is shown elsewhere.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles import finders
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import get_language, gettext, override
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe

from agents import models
from agents.admin.chat_page import TEXTS, set_security_headers
from agents.chat.agents.widgets import find_widget
from rag.core.errors import NotFoundError

# For how long browsers keep the loader, in seconds: so late a change of origins is seen.
LOADER_S = 300


@require_safe
@gzip_page
def widget_loader(request: HttpRequest, key: str) -> HttpResponse:
    """Return the script that a site includes; for an unknown key one that says so in the console.

    A script with another status than 200 would not run, and nobody would be told.
    """
    try:
        body = _loader(_loader_settings(request, find_widget(key=key)))
    except NotFoundError as error:
        told = f"Citable: {gettext(error.message)} {gettext(error.hint)}"
        body = f"console.error({json.dumps(told)});\n"
    response = HttpResponse(body, content_type="text/javascript; charset=utf-8")
    response["Cache-Control"] = f"public, max-age={LOADER_S}"
    response["Cross-Origin-Resource-Policy"] = "cross-origin"
    return response


@require_safe
@xframe_options_exempt
def widget_page(request: HttpRequest, key: str) -> HttpResponse:
    """Return the chat page for visitors; ``lang`` is the language of the page around it."""
    asked = request.GET.get("lang", "")
    known = [code for code, _ in settings.LANGUAGES]
    with override(asked if asked in known else get_language()):
        try:
            widget = find_widget(key=key)
        except NotFoundError as error:
            return HttpResponse(
                f"{gettext(error.message)} {gettext(error.hint)}",
                content_type="text/plain; charset=utf-8",
                status=404,
            )
        context = {"data": _page_data(widget), "widget": widget}
        response = set_security_headers(render(request, "chat/page.html", context))
    ancestors = " ".join(widget.origins) or "'none'"
    policy = response["Content-Security-Policy"].replace("img-src 'self'", "img-src 'self' blob:")
    response["Content-Security-Policy"] = policy.replace(
        "frame-ancestors 'none'", f"frame-ancestors {ancestors}"
    )
    return response


def text_colour(background: str) -> str:
    """Return black or white, whichever can be read better on a colour (WCAG's contrast)."""
    parts = [int(background[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    is_bright = 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179
    return "#000000" if is_bright else "#ffffff"


def _page_data(widget: models.Widget) -> dict[str, Any]:
    agent = widget.agent
    shown = {"name": agent.name, "label": widget.name, "description": agent.about, "stores": []}
    return {
        "agents": [shown],
        "stores": [],
        "texts": {name: str(text) for name, text in TEXTS.items()},
        "widget": _colours(widget) | {"key": widget.key},
    }


def _colours(widget: models.Widget) -> dict[str, str]:
    return {"accent": widget.colour, "on_accent": text_colour(widget.colour)}


def _loader_settings(request: HttpRequest, widget: models.Widget) -> dict[str, Any]:
    texts: dict[str, dict[str, str]] = {}
    for code, _ in settings.LANGUAGES:
        with override(code):
            texts[code] = {
                "open": gettext("Ask a question"),
                "refused": gettext(
                    "Citable: this page's origin {origin} is not among the widget's allowed "
                    "origins. Ask an administrator of {home} to add it."
                ),
            }
    return {
        "page": request.build_absolute_uri(reverse("widget", args=[widget.key])),
        "title": widget.name,
        "origins": widget.origins,
        "texts": texts,
        **_colours(widget),
    }


def _loader(values: dict[str, Any]) -> str:
    told = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return f"(() => {{\nconst settings = {told};\n{_source()}}})();\n"


@lru_cache(maxsize=1)
def _source() -> str:
    return Path(str(finders.find("agents/chat/widget.js"))).read_text(encoding="utf-8")
