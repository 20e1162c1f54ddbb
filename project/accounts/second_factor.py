"""Second factor (TOTP) by django-allauth: at both doors, sealed, required of staff on demand."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.internal.decorators import login_stage_required
from allauth.account.stages import LoginStage
from allauth.core import context
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.base.forms import AuthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.totp.internal.auth import TOTP, clear_totp_secret
from allauth.mfa.totp.views import activate_totp
from allauth.mfa.utils import is_mfa_enabled
from axes.handlers.proxy import AxesProxyHandler
from cryptography.fernet import Fernet
from django.conf import settings
from django.contrib.auth.signals import user_login_failed
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views.generic.edit import FormView

from project.accounts.notices import notice_response

ENROLMENT = "second_factor_enrolment"
_TYPES, _CODES = [Authenticator.Type.TOTP], Authenticator.Type.RECOVERY_CODES


class Accounts(DefaultAccountAdapter):  # type: ignore[misc]  # allauth has no types
    """Sign-in of both doors: no sign-up by oneself, and enrolment where it is required."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Return that accounts are made by administrators or single sign-on alone."""
        return False

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """Say nothing: pages show whether somebody is signed in."""

    def get_login_stages(self) -> list[str]:
        """Return the library's stages, and then the enrolment of who must have a second factor."""
        return [*super().get_login_stages(), "project.accounts.second_factor.EnrolmentStage"]

    def respond_user_inactive(self, request: HttpRequest, user: Any) -> HttpResponse:
        """Return the refusal of an account that was switched off."""
        return notice_response(request, _("This account is switched off."), 403)


class SealedSecrets(DefaultMFAAdapter):  # type: ignore[misc]
    """Secrets of authenticators, sealed by the installation's key: a dump alone makes no codes."""

    def encrypt(self, text: str) -> str:
        """Return the text sealed."""
        return _fernet().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """Return what was sealed by this installation."""
        return _fernet().decrypt(encrypted_text.encode()).decode()


def _fernet() -> Fernet:
    digest = hashlib.sha256(b"second factor:" + settings.SECRET_KEY.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(digest))


class CodeForm(AuthenticateForm):  # type: ignore[misc]
    """Code of the second factor; wrong ones are counted as wrong passwords are."""

    def clean_code(self) -> str:
        """Return a code that holds."""
        request: Any = context.request
        credentials = {"username": self.user.get_username()}
        if not AxesProxyHandler.is_allowed(request, credentials):
            request.axes_locked_out = True
            raise ValidationError("", code="locked")
        try:
            return str(super().clean_code())
        except ValidationError:
            user_login_failed.send(sender=__name__, credentials=credentials, request=request)
            raise


def activate(request: HttpRequest) -> HttpResponseBase:
    """Return the page that begins a second factor; 404 where none is offered."""
    if settings.SECOND_FACTOR == "off":
        raise Http404
    response: HttpResponseBase = activate_totp(request)
    return response


class EnrolmentStage(LoginStage):  # type: ignore[misc]
    """Holds up the sign-in of staff without a second factor where settings require one."""

    key = ENROLMENT
    urlname = "second-factor-enrolment"

    def handle(self) -> tuple[HttpResponse | None, bool]:
        """Return the redirect to the enrolment, nothing where none is due."""
        user = self.login.user
        is_due = settings.SECOND_FACTOR == "staff" and user.is_staff
        if not is_due or is_mfa_enabled(user, _TYPES):
            return None, True
        return HttpResponseRedirect(reverse(self.urlname)), True


@method_decorator(
    login_stage_required(stage=ENROLMENT, redirect_urlname="account_login"), name="dispatch"
)
class EnrolmentView(FormView):  # type: ignore[type-arg]
    """Page with the QR code; who types the code that follows from it is signed in."""

    form_class = ActivateTOTPForm
    template_name = "accounts/enrolment.html"

    def get_form_kwargs(self) -> dict[str, Any]:
        """Return the form's arguments, with who is signing in."""
        return {**super().get_form_kwargs(), "user": self._stage().login.user}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the page's values: the QR code as a picture, the secret as text."""
        found = super().get_context_data(**kwargs)
        secret, adapter = found["form"].secret, SealedSecrets()
        svg = adapter.build_totp_svg(adapter.build_totp_url(self._stage().login.user, secret))
        picture = base64.b64encode(svg.encode()).decode()
        return {**found, "secret": secret, "picture": f"data:image/svg+xml;base64,{picture}"}

    def form_valid(self, form: Any) -> HttpResponse:
        """Keep the authenticator, sign in and show the recovery codes."""
        user = self._stage().login.user
        with transaction.atomic():
            TOTP.activate(user, form.secret)
            RecoveryCodes.activate(user)
        clear_totp_secret(self.request)
        codes = RecoveryCodes(Authenticator.objects.get(user=user, type=_CODES)).get_unused_codes()
        shown = {"codes": codes, "next": self._stage().exit()["Location"]}
        return render(self.request, "accounts/recovery_codes.html", shown)

    def _stage(self) -> Any:
        return self.request._login_stage  # type: ignore[attr-defined]
