"""The chat's own door. In: a name and a password. Out: the chat page, also to who has no desk."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

# Nothing from elsewhere, nothing inline: what a model or a document says can start nothing.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class ChatLogin(LoginView):
    """Django's sign-in; the admin's own refuses readers, who have no desk there."""

    template_name = "chat/login.html"
    next_page = "chat"
    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer under the chat's policy."""
        response = super().dispatch(request, *args, **kwargs)
        return shut(response) if isinstance(response, HttpResponse) else response


def shut(response: HttpResponse) -> HttpResponse:
    """Return a page that nothing from elsewhere can reach into, and that no cache keeps."""
    response["Content-Security-Policy"] = POLICY
    response["Cache-Control"] = "no-store"
    response["Referrer-Policy"] = "same-origin"
    return response
