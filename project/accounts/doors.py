"""Login doors: the chat's and the admin's, one way in for both."""

from __future__ import annotations

from typing import Any

from allauth.account.utils import perform_login
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _
from unfold.forms import AuthenticationForm

from agents.admin.chat_page import set_security_headers


class _Door(LoginView):
    def form_valid(self, form: Any) -> HttpResponse:
        """Sign in whose password is right, or lead to what is still to be shown."""
        response: HttpResponse = perform_login(
            self.request,
            form.get_user(),
            email_verification="none",
            redirect_url=self.get_success_url(),
        )
        return response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the page's values, with the way to single sign-on where it is configured."""
        way = f"{reverse('sign-on')}?{urlencode({'next': self.get_success_url()})}"
        sign_on = {"name": settings.OIDC_NAME, "url": way} if settings.OIDC_ISSUER else None
        return {**super().get_context_data(**kwargs), "sign_on": sign_on}


class ChatLogin(_Door):
    """Login of the chat page; the admin's own refuses users who are not staff."""

    template_name = "chat/login.html"
    next_page = "chat"
    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer under the chat's policy."""
        response = super().dispatch(request, *args, **kwargs)
        return set_security_headers(response) if isinstance(response, HttpResponse) else response


class AdminLogin(_Door):
    """Login of the admin, for staff."""

    template_name = "admin/login.html"
    authentication_form = AuthenticationForm
    next_page = "admin:index"

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Return the form; who may use the admin already goes there."""
        if admin.site.has_permission(request):
            return redirect("admin:index")
        return super().get(request, *args, **kwargs)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return what the admin's template shows."""
        shown = {
            "title": _("Log in"),
            "subtitle": None,
            "app_path": self.request.get_full_path(),
            "username": self.request.user.get_username(),
        }
        site = admin.site.each_context(self.request)
        return {**super().get_context_data(**kwargs), **site, **shown}
