"""OpenID Connect: single sign-on by django-allauth, with strict ID tokens and mapped groups.

The library leaves out the nonce and, where it has fetched the token itself, the signature; both are
checked here. No account of this site is taken over by a name or an address that a provider tells.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Any

import jwt
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter, get_adapter
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.base import AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib.auth.models import Group
from django.db import transaction
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from requests import RequestException

from project.accounts.notices import notice_response
from rag.core.errors import ForbiddenError

PROVIDER_ID = "sso"
# Signatures by a public key alone: with a shared one everybody who can check a token can make one.
ALGORITHMS = [f"{family}{bits}" for family in ("RS", "PS", "ES") for bits in (256, 384, 512)]
CLOCK_SKEW_S = 60
_KEPT = (
    "sub",
    "preferred_username",
    "name",
    "given_name",
    "family_name",
    "email",
    "email_verified",
)
_MALFORMED = (AttributeError, KeyError, TypeError, ValueError)
log = logging.getLogger(__name__)


class SignOnAdapter(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]  # allauth has no types
    """Client of the provider; whatever of its answers does not hold is an OAuth2Error."""

    nonce = ""

    @property
    def openid_config(self) -> dict[str, Any]:
        """Return the provider's description, which must be about the issuer that was configured."""
        found: dict[str, Any] = super().openid_config
        if found.get("issuer", "").rstrip("/") != settings.OIDC_ISSUER.rstrip("/"):
            raise OAuth2Error("The description is that of another issuer")
        return found

    def complete_login(self, request: HttpRequest, app: Any, token: Any, **kwargs: Any) -> Any:
        """Return the login of the ID token's subject, with the claims of both answers."""
        claims = self.verified_claims(app, kwargs["response"].get("id_token", ""))
        if "userinfo_endpoint" in self.openid_config:
            info = self._fetch_user_info(token.token)
            if info.get("sub") != claims["sub"]:
                raise OAuth2Error("The user info is about another subject")
            claims = {**claims, **info}
        names = (*_KEPT, settings.OIDC_GROUPS_CLAIM)
        kept = {name: claims[name] for name in names if name in claims}
        return self.get_provider().sociallogin_from_response(request, kept)

    def verified_claims(self, app: Any, id_token: str) -> dict[str, Any]:
        """Return the claims of an ID token that the issuer signed for us and for this attempt."""
        config = self.openid_config
        try:
            claims: dict[str, Any] = jwt.decode(
                id_token,
                self._signing_key(id_token),
                algorithms=ALGORITHMS,
                audience=app.client_id,
                issuer=config["issuer"],
                leeway=CLOCK_SKEW_S,
                options={"require": ["iss", "sub", "aud", "exp", "iat"]},
            )
        except (jwt.PyJWTError, *_MALFORMED) as error:
            raise OAuth2Error(f"The ID token does not hold: {error}") from error
        if not self.nonce or not secrets.compare_digest(str(claims.get("nonce")), self.nonce):
            raise OAuth2Error("The ID token was made for another attempt")
        if claims.get("azp", app.client_id) != app.client_id:
            raise OAuth2Error("The ID token was made for another client")
        return claims

    def _signing_key(self, id_token: str) -> jwt.PyJWK:
        named = jwt.get_unverified_header(id_token).get("kid")
        with get_adapter().get_requests_session() as session:
            response = session.get(self.openid_config["jwks_uri"])
            response.raise_for_status()
        keys = jwt.PyJWKSet.from_dict(response.json()).keys
        fitting = [key for key in keys if named in (None, key.key_id)]
        # A token need not name its key where there is but one.
        if len(fitting) != 1:
            raise OAuth2Error("The ID token does not say by which key it is signed")
        return fitting[0]


class SignOnProvider(OpenIDConnectProvider):  # type: ignore[misc]
    """The configured provider: nothing of the request but ``next`` changes what is asked of it."""

    oauth2_adapter_class = SignOnAdapter

    def redirect(
        self, request: HttpRequest, process: str, next_url: str | None = None, *_: Any, **__: Any
    ) -> HttpResponseBase:
        """Return the redirect to the provider, with a nonce kept beside the state."""
        nonce = secrets.token_urlsafe(24)
        response: HttpResponseBase = super().redirect(
            request, AuthProcess.LOGIN, next_url, auth_params={"nonce": nonce}, nonce=nonce
        )
        return response


class _Callback(OAuth2CallbackView):  # type: ignore[misc]
    def _get_state(self, request: HttpRequest, provider: Any) -> Any:
        state, response = super()._get_state(request, provider)
        self.adapter.nonce = (state or {}).get("nonce", "")
        return state, response


class SignOnAccounts(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Accounts of people who come by the provider: made, kept in their groups, or refused."""

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Refuse who may not come in, before anything is written; renew a known one's groups."""
        try:
            roles = mapped_roles(sociallogin.account.extra_data)
        except ForbiddenError as refusal:
            raise ImmediateHttpResponse(_refused(request, refusal)) from refusal
        if sociallogin.is_existing:
            apply_roles(sociallogin.user, *roles)

    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> Any:
        """Make the account of somebody new with its groups, in one transaction."""
        with transaction.atomic():
            user = super().save_user(request, sociallogin, form)
            apply_roles(user, *mapped_roles(sociallogin.account.extra_data))
        return user

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        """Return that whoever the provider knows and the groups let in has an account."""
        return True

    def on_authentication_error(self, request: HttpRequest, provider: Any, **kwargs: Any) -> None:
        """Tell in one sentence that it failed; the reason is the operator's, in the log."""
        log.warning("Single sign-on failed: %s", kwargs.get("exception") or kwargs.get("error"))
        raise ImmediateHttpResponse(_failed(request))


def mapped_roles(claims: Mapping[str, Any]) -> tuple[set[Group], bool]:
    """Return the groups of ours that the provider's give, and whether they make staff.

    Raises ForbiddenError where none of them lets anybody in, or one of ours does not exist.
    """
    told = claims.get(settings.OIDC_GROUPS_CLAIM, [])
    told = [told] if isinstance(told, str) else told
    if not isinstance(told, list) or not all(isinstance(name, str) for name in told):
        raise ForbiddenError("The groups that single sign-on tells cannot be read.")
    names = {ours for theirs, ours in settings.OIDC_GROUPS.items() if theirs in told}
    is_staff = bool(set(told) & set(settings.OIDC_STAFF_GROUPS))
    if settings.OIDC_GROUPS and not names and not is_staff:
        raise ForbiddenError("None of your groups may use this site; ask its administrator.")
    groups = set(Group.objects.filter(name__in=names))
    if missing := sorted(names - {group.name for group in groups}):
        log.error("OIDC_GROUPS names groups that do not exist: %s", ", ".join(missing))
        raise ForbiddenError("A group of yours is not set up on this site; ask its administrator.")
    return groups, is_staff


def apply_roles(user: Any, groups: set[Group], is_staff: bool) -> None:
    """Give the account the mapped groups, take the other mapped ones, leave all others alone."""
    managed = set(Group.objects.filter(name__in=set(settings.OIDC_GROUPS.values())))
    user.groups.remove(*(managed - groups))
    user.groups.add(*groups)
    if settings.OIDC_STAFF_GROUPS and not user.is_superuser and user.is_staff != is_staff:
        user.is_staff = is_staff
        user.save(update_fields=["is_staff"])


def sign_on(request: HttpRequest) -> HttpResponseBase:
    """Lead to the provider; 404 where none is configured."""
    return _guarded(request, OAuth2LoginView)


def sign_on_callback(request: HttpRequest, provider_id: str = PROVIDER_ID) -> HttpResponseBase:
    """Take the provider's answer: signed in, or told in one sentence why not."""
    return _guarded(request, _Callback)


def _guarded(request: HttpRequest, view: Any) -> HttpResponseBase:
    try:
        response: HttpResponseBase = view.adapter_view(SignOnAdapter(request, PROVIDER_ID))(request)
    except SocialApp.DoesNotExist as error:
        raise Http404 from error
    except (
        OAuth2Error,
        RequestException,
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
    ) as error:
        log.warning("Single sign-on failed: %s", error)
        return _failed(request)
    return response


def _failed(request: HttpRequest) -> HttpResponseBase:
    sentence = _("Single sign-on did not work; try again or ask an administrator.")
    return notice_response(request, sentence, 401)


def _refused(request: HttpRequest, refusal: ForbiddenError) -> HttpResponseBase:
    return notice_response(request, _(str(refusal)), 403)
