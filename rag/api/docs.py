"""API documentation page: the OpenAPI document, with scripts from this server only."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt, ensure_csrf_cookie
from django.views.decorators.http import require_safe


@csrf_exempt
@require_safe
@ensure_csrf_cookie
def docs(request: HttpRequest) -> HttpResponse:
    """Return the page."""
    return render(request, "api/docs.html", {"url": reverse("api-openapi")})
