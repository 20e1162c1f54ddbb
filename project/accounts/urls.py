"""URL routes of sign-in: both doors, single sign-on, second factors."""

from __future__ import annotations

from allauth.account.views import reauthenticate
from django.contrib.auth.views import LogoutView
from django.urls import include, path
from django.views.generic import RedirectView

from project.accounts.doors import AdminLogin, ChatLogin
from project.accounts.oidc import sign_on, sign_on_callback
from project.accounts.second_factor import EnrolmentView, activate

urlpatterns = [
    path("admin/login/", AdminLogin.as_view()),
    path("chat/login", ChatLogin.as_view(), name="chat-login"),
    path("chat/logout", LogoutView.as_view(next_page="chat-login"), name="chat-logout"),
    path("accounts/sso/login/", sign_on, name="sign-on"),
    path("accounts/<slug:provider_id>/callback/", sign_on_callback, name="openid_connect_callback"),
    # Names that the library's pages lead to.
    path("accounts/login/", RedirectView.as_view(pattern_name="chat-login"), name="account_login"),
    path("accounts/logout/", LogoutView.as_view(next_page="chat-login"), name="account_logout"),
    path("accounts/password/", reauthenticate, name="account_reauthenticate"),
    path("accounts/enrolment/", EnrolmentView.as_view(), name="second-factor-enrolment"),
    # Where nobody is offered a second factor there is no page to begin one.
    path("accounts/second-factor/totp/activate/", activate, name="mfa_activate_totp"),
    path("accounts/second-factor/", include("allauth.mfa.urls")),
]
