"""API keys in the admin: created, shown once, revoked."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from rag import models
from rag.admin.ui.cells import column, label
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.scoped import ScopedAdmin, scope_for
from rag.admin.ui.theme import CheckboxSelectMultiple
from rag.core.access import Scope
from rag.core.errors import RAGError
from rag.services.access import create_key, revoke_key, validate_key


class ApiKeyForm(forms.ModelForm):  # type: ignore[type-arg]
    """A key's name, user, rights and limits; the admin says who fills the form in."""

    requester: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "rights" in self.fields:
            self.fields["rights"] = forms.MultipleChoiceField(
                label=self.fields["rights"].label,
                choices=models.ApiKey.Right.choices,
                widget=CheckboxSelectMultiple,
                initial=[models.ApiKey.Right.READ],
            )

    def clean(self) -> dict[str, Any] | None:
        """Return all values; the key must be of use to its user."""
        cleaned = super().clean() or {}
        if self.errors or not self.instance._state.adding:
            return cleaned
        try:
            validate_key(
                user=cleaned.get("user") or self.requester,
                name=cleaned["name"],
                rights=cleaned["rights"],
                stores=list(cleaned["stores"]),
                expires_at=cleaned["expires_at"],
            )
        except RAGError as error:
            raise forms.ValidationError(error_sentence(error)) from error
        return cleaned


_FACTS = ("begins_with", "state", "last_used_at", "created_at")


@admin.register(models.ApiKey)
class ApiKeyAdmin(ScopedAdmin):
    """One's own keys; superusers see all and make keys for others."""

    form = ApiKeyForm
    list_display = (
        "name",
        "begins_with",
        "user",
        "may",
        "only",
        "state",
        "expires_at",
        "last_used_at",
    )
    list_select_related = ("user",)
    search_fields = ("name", "prefix", f"user__{get_user_model().USERNAME_FIELD}")
    search_help_text = _("Part of the name, of how the key begins, or of the user's name.")
    sortable_by = ("name", "expires_at", "last_used_at")
    actions = ("revoke",)
    autocomplete_fields = ("user", "stores")

    def readable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        return queryset if scope.is_operator else queryset.filter(user_id=scope.user_id)

    def editable(self, queryset: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
        return self.readable(queryset, scope)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields that this user may set, and the facts of an existing key."""
        by_superuser = ["user"] if scope_for(request).is_operator or obj else []
        limits = ["requests_per_minute"] if scope_for(request).is_operator or obj else []
        fields = ["name", *by_superuser, "rights", "stores", "expires_at", "footnotes", *limits]
        return [(None, {"fields": fields}), *([(_("Facts"), {"fields": _FACTS})] if obj else [])]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return what is fixed: of a key that was given out all but its name and its footnotes."""
        fixed = ("user", "rights", "stores", "expires_at", "requests_per_minute")
        return [*_FACTS, *(fixed if obj else ())]

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        """Return the form, which knows for whom a key is made."""
        form = super().get_form(request, obj, change, **kwargs)
        return type(form.__name__, (form,), {"requester": request.user})

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Return the defaults: a key for oneself."""
        return {"user": request.user.pk, **super().get_changeform_initial_data(request)}

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Make a key by the service, or save what may change of one."""
        if change:
            obj.save(update_fields=["name", "footnotes"])
            return
        chosen: dict[str, Any] = form.cleaned_data
        user: Any = chosen.get("user") or request.user
        key, secret = create_key(
            user=user,
            name=chosen["name"],
            rights=chosen["rights"],
            stores=list(chosen["stores"]) or None,
            expires_at=chosen["expires_at"],
            requests_per_minute=obj.requests_per_minute,
        )
        key.footnotes = obj.footnotes
        key.save(update_fields=["footnotes"])
        obj.__dict__.update(key.__dict__)
        obj.secret = secret

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Do nothing: the service has set the stores."""

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the key, once: in no redirect, message or session, where it would be kept."""
        context = {**self.admin_site.each_context(request), "opts": self.opts}
        context |= {"title": _("Your new key"), "key": obj, "secret": obj.secret}
        response = TemplateResponse(request, "admin/rag/api_key_made.html", context)
        response["Cache-Control"] = "no-store"
        return response

    @admin.action(description=_("Revoke: refused from now on"), permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """End the chosen keys for good."""
        n = sum(revoke_key(key=key) for key in queryset)
        text = ngettext("%(n)d key was revoked.", "%(n)d keys were revoked.", n) % {"n": n}
        self.message_user(request, text, messages.SUCCESS if n else messages.WARNING)

    begins_with = column(_("begins with"), lambda key: f"{key.prefix}…")

    @admin.display(description=_("rights"))
    def may(self, key: models.ApiKey) -> str:
        """Return what the key may be used for."""
        names = dict(models.ApiKey.Right.choices)
        return ", ".join(str(names.get(right, right)) for right in key.rights)

    only = column(
        _("stores"), lambda key: _("only some") if key.is_limited else _("all of the user")
    )

    @admin.display(description=_("state"))
    def state(self, key: models.ApiKey) -> SafeString:
        """Return whether the key is accepted."""
        if key.revoked_at is not None:
            return label(_("revoked"), "bad")
        if key.expires_at is not None and key.expires_at <= timezone.now():
            return label(_("expired"), "idle")
        return label(_("valid"), "good")
