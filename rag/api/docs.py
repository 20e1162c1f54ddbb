"""API documentation page: both OpenAPI documents, with scripts from this server only."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_GET


@require_GET
@ensure_csrf_cookie
def docs(request: HttpRequest) -> HttpResponse:
    """Return the page; ``?of=resources`` shows the other document."""
    documents = [
        {"name": "retrieval", "title": _("Retrieval"), "url": reverse("api-1:openapi-json")},
        {"name": "resources", "title": _("Resources"), "url": reverse("api-schema")},
    ]
    chosen = documents[1] if request.GET.get("of") == "resources" else documents[0]
    return render(request, "api/docs.html", {"documents": documents, "chosen": chosen})
