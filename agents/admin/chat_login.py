"""Chat login: sign-in for readers who have no access to the admin; strict security headers."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

# No inline scripts, nothing from other origins: text of a model or document cannot run code.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class ChatLogin(LoginView):
    """Django's login for the chat page; the admin's own refuses users who are not staff."""

    template_name = "chat/login.html"
    next_page = "chat"
    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer under the chat's policy."""
        response = super().dispatch(request, *args, **kwargs)
        return set_security_headers(response) if isinstance(response, HttpResponse) else response


def set_security_headers(response: HttpResponse) -> HttpResponse:
    """Return the response with a strict CSP, ``no-store`` and a same-origin referrer policy."""
    response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    response["Cache-Control"] = "no-store"
    response["Referrer-Policy"] = "same-origin"
    return response
