"""Store form: fields, retrieval settings, and the embedding model of a new store."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.utils.text import slugify
from django.utils.translation import gettext_lazy as _

from rag import models
from rag.admin.stores.settings_form import SettingsField
from rag.admin.ui.conflict_form import ConflictCheckedForm
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.splitters import TemplateField
from rag.admin.ui.theme import TextInput
from rag.conf import conf
from rag.core.errors import RAGError
from rag.services.index import ensure_space


class StoreForm(ConflictCheckedForm):
    """A store's own fields; a new store also chooses its embedding model."""

    audit_kinds = ("store", "store readers", "store editors")

    splitter = TemplateField(
        help_text=_("When it is changed, the store's files are cut anew by the queue.")
    )
    retrieval = SettingsField(label=_("Retrieval settings"))
    embedding_model = forms.CharField(
        label=_("embedding model"),
        required=False,
        max_length=200,
        help_text=_(
            "provider:model, such as e5:multilingual-e5-small. Empty: the installation's own. "
            "It decides what counts as similar and cannot be changed later."
        ),
        widget=TextInput,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "embedding_model" in self.fields:
            self.fields["embedding_model"].widget.attrs["placeholder"] = conf().embedding_model
        if "splitter" in self.fields:
            cast(TemplateField, self.fields["splitter"]).offer(self.instance.splitter)
        if "backend" in self.fields:
            self.fields["backend"].initial = conf().default_store_backend
            self.fields["backend"].required = False
        if "slug" in self.fields:
            self.fields["slug"].required = False
            self.fields["slug"].help_text = _(
                "The name in addresses and for the API. Empty: made from the name."
            )
        if "display_name" in self.fields:
            self.fields["display_name"].help_text = _("As readers see it. Empty: the name.")

    def clean_backend(self) -> str:
        """Return the backend, the local one by default."""
        return str(self.cleaned_data["backend"] or models.Store.Backend.LOCAL)

    def clean_slug(self) -> str:
        """Return the slug, made from the name when empty."""
        slug: str = self.cleaned_data["slug"] or self.instance.slug
        return (
            slug or slugify(self.cleaned_data.get("name", ""), allow_unicode=True)[:100] or "store"
        )

    def clean(self) -> dict[str, Any] | None:
        """Return all values; a new store's embedding model must be available."""
        cleaned = super().clean()
        is_local = self.cleaned_data.get("backend") != "gemini"
        if not self.errors and self.instance._state.adding and is_local:
            try:
                ensure_space(embedding_model=self.cleaned_data.get("embedding_model", ""))
            except RAGError as error:
                self.add_error("embedding_model", error_sentence(error))
        return cleaned
