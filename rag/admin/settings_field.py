"""A store's retrieval settings as one field of its form. In: stored JSON. Out: what differs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django import forms
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from rag.admin.sentences import error_sentence
from rag.admin.settings_form import SettingsForm
from rag.core.errors import RAGError
from rag.core.types import RetrievalSettings


class SettingsWidget(forms.Widget):
    """Draws every setting with what it does; empty ones are as usual."""

    def value_from_datadict(self, data: Any, files: Any, name: str) -> SettingsForm:
        """Return what was filled in, not yet checked."""
        return _form(name, data)

    def value_omitted_from_data(self, data: Any, files: Any, name: str) -> bool:
        """Return False: emptied settings are the defaults, not the ones before."""
        return False

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        """Return the settings as a grid; ``value`` is stored JSON, or a form that was sent."""
        form = value if isinstance(value, SettingsForm) else _form(name, None, _stored(value))
        return render_to_string("admin/rag/settings_field.html", {"form": form})


class SettingsField(forms.Field):
    """Settings that every search will accept, as a JSON object of those that differ."""

    widget = SettingsWidget

    def __init__(self, **kwargs: Any) -> None:
        kwargs.pop("encoder", None)
        kwargs.pop("decoder", None)
        super().__init__(**{**kwargs, "required": False, "help_text": ""})

    def clean(self, value: Any) -> dict[str, Any]:
        """Return what was filled in; ValidationError where it does not go together."""
        form: SettingsForm = value
        if not form.is_valid():
            raise forms.ValidationError(
                [
                    f"{form[name].label}: {said}"
                    for name, told in form.errors.items()
                    for said in told
                ]
            )
        try:
            form.settings()
        except RAGError as error:
            raise forms.ValidationError(error_sentence(error)) from error
        return form.changes()

    def described(self, value: Any) -> str:
        """Return stored settings in words: each by its name in the form."""
        form = _form("", None, _stored(value))
        shown = ((form.fields.get(name), said) for name, said in _stored(value).items())
        return ", ".join(f"{field.label}: {_word(field, said)}" for field, said in shown if field)

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Return whether anything was filled in otherwise than it is stored."""
        return not data.is_valid() or data.changes() != _stored(initial)


def _form(name: str, data: Any, stored: Mapping[str, Any] | None = None) -> SettingsForm:
    own, initial = RetrievalSettings(), dict(stored or {})
    if isinstance(initial.get("content_types"), (list, tuple)):
        initial["content_types"] = ", ".join(map(str, initial["content_types"]))
    if initial.get("metadata"):
        initial["metadata"] = json.dumps(initial["metadata"], ensure_ascii=False)
    return SettingsForm(data, prefix=name, own=own, is_default=True, initial=initial)


def _word(field: forms.Field, value: Any) -> Any:
    names = dict(field.choices) if isinstance(field, forms.ChoiceField) else {}  # type: ignore[arg-type]
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return names.get(value, value) if isinstance(value, str) else json.dumps(value)


def _stored(value: Any) -> dict[str, Any]:
    """Return stored settings; Django hands JSON to a widget as text."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    return dict(found) if isinstance(found, dict) else {}
