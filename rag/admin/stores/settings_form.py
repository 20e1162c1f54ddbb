"""Retrieval settings form, and a model form field that holds all settings as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields as fields_of
from typing import Any

from django import forms
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from rag.admin.ui.messages import error_sentence
from rag.core.analysis import UNANSWERABLE_WAYS
from rag.core.errors import RAGError
from rag.core.types import DECOMPOSITIONS, FUSIONS, MODES, RetrievalSettings, rerank_methods
from rag.services.plugins import list_plugins

MODE_LABELS = {
    "auto": _("automatic"),
    "semantic": _("vector search"),
    "keyword": _("full-text search"),
    "hybrid": _("hybrid search"),
    "lookup": _("by name"),
}
_FUSION_NAMES = {"weighted": _("weighted scores"), "rrf": _("ranks (RRF)")}
_RERANK_NAMES = {
    "none": _("none"),
    "llm": _("chat model"),
    "endpoint": _("rerank service"),
    "mixed": _("service, then chat model"),
}
_CONTEXT_NAMES = {
    "standard": _("standard"),
    "detailed": _("detailed"),
    "summary": _("summary"),
    "xml": _("XML"),
}
UNANSWERABLE_LABELS = {
    "answer": _("answer anyway"),
    "warn": _("answer with a warning"),
    "refuse": _("say that it is not there"),
}
_DECOMPOSITION_NAMES = {"rules": _("search for each part"), "none": _("search once")}
_CHOICES: dict[str, tuple[Any, Any, Any]] = {
    "mode": (_("Search"), MODES, MODE_LABELS),
    "fusion": (_("Fusion"), FUSIONS, _FUSION_NAMES),
    "rerank": (_("Reranker"), rerank_methods, _RERANK_NAMES),
    "context_type": (_("Layout of the context"), tuple(_CONTEXT_NAMES), _CONTEXT_NAMES),
    "unanswerable": (_("Without an answer in the hits"), UNANSWERABLE_WAYS, UNANSWERABLE_LABELS),
    "decomposition": (_("Questions of several parts"), DECOMPOSITIONS, _DECOMPOSITION_NAMES),
}
_NUMBERS: dict[str, tuple[Any, float, float]] = {
    "top_k": (_("Top K"), 1, 200),
    "vector_weight": (_("Semantic weight"), 0, 1),
    "bm25_weight": (_("Keyword weight"), 0, 1),
    "vector_threshold": (_("Similarity threshold"), -1, 1),
    "bm25_threshold": (_("Keyword score threshold"), 0, 1_000_000),
    "rerank_top_k": (_("Rerank candidates"), 1, 200),
    "context_tokens": (_("Tokens of the context"), 100, 1_000_000),
}
_HELP: dict[str, Any] = {
    "mode": _(
        "Automatic: the question decides. Vector search finds other wordings and "
        "languages, full-text search finds numbers, names and codes."
    ),
    "fusion": _("How both searches become one list: by their scores, or by their places alone."),
    "rerank": _("Reads the best hits once more and puts them in order; slower, often better."),
    "context_type": _("How hits are laid out for the model that answers."),
    "top_k": _("How many chunks are found at most. Empty: the question decides."),
    "vector_weight": _("How much the meaning counts; more finds paraphrases."),
    "bm25_weight": _("How much the very words count; more finds codes and rare names."),
    "vector_threshold": _(
        "Chunks less similar than this are left out, whichever model made the vectors: 0.5 is "
        "doubtful, 0.7 is good. Words alone keep one only where they have a threshold too. "
        "0 keeps all."
    ),
    "bm25_threshold": _("Chunks whose words fit worse than this are left out; 0 keeps all."),
    "rerank_top_k": _("How many of the best hits are read once more."),
    "context_tokens": _("How much text the model that answers gets at most."),
    "content_types": _("Only files of these types, with commas between them. Empty: all."),
    "metadata": _("Only files that say this of themselves, as JSON. Empty: all."),
    "unanswerable": _(
        "What is done where the hits may not hold the answer. With a warning, too, a question "
        "that the documents are not about is refused."
    ),
    "decomposition": _(
        "“Where was the author of X born?” needs two passages: the name in the first makes the "
        "second search. Questions of one part are searched once in any case."
    ),
}
_WHOLE = ("top_k", "rerank_top_k", "context_tokens")
NAMES: tuple[str, ...] = tuple(field.name for field in fields_of(RetrievalSettings))


class SettingsForm(forms.Form):
    """All retrieval settings; an empty field means the value in ``own``."""

    def __init__(
        self, *args: Any, own: RetrievalSettings, is_default: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._own = own
        empty = _("as usual: %(value)s") if is_default else _("as the store: %(value)s")
        for name in NAMES:
            self.fields[name] = _field(name, getattr(own, name), empty)
            self.fields[name].help_text = _HELP[name]

    def clean_content_types(self) -> tuple[str, ...]:
        """Return the words between the commas."""
        text = str(self.cleaned_data["content_types"] or "")
        return tuple(filter(None, (word.strip() for word in text.replace("，", ",").split(","))))

    def clean_metadata(self) -> dict[str, Any]:
        """Return a JSON object."""
        text = self.cleaned_data["metadata"]
        if not text:
            return {}
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise forms.ValidationError(_("Write a JSON object."))
        return value

    def changes(self) -> dict[str, Any]:
        """Return what was filled in."""
        return {
            name: value
            for name, value in self.cleaned_data.items()
            if value not in (None, "", (), {})
        }

    def settings(self) -> RetrievalSettings:
        """Return the store's settings with the changes; RAGError where they do not go together."""
        return self._own.but(**self.changes())


def settings_or_default(retrieval: dict[str, Any]) -> RetrievalSettings:
    """Return a store's settings; the defaults if the stored JSON is invalid."""
    try:
        return RetrievalSettings.from_dict(retrieval)
    except RAGError:
        return RetrievalSettings()


def _field(name: str, own: Any, empty: Any) -> forms.Field:
    if name in _CHOICES:
        label, known, names = _CHOICES[name]
        if callable(known):
            known = known()
            labels = {one.name: one.label for one in list_plugins(kind="reranker").plugins}
            names = labels | names
        first = ("", empty % {"value": names.get(own, own)})
        choices = [first, *((key, names.get(key, key)) for key in known)]
        return forms.ChoiceField(label=label, required=False, choices=choices)
    if name in _NUMBERS:
        label, low, high = _NUMBERS[name]
        is_whole = name in _WHOLE
        shown = _("3, 5 or 10") if own is None else f"{own:g}"
        step = "1" if is_whole else "any"
        widget = forms.NumberInput(attrs={"placeholder": shown, "step": step})
        limits: dict[str, Any] = {"min_value": low, "max_value": high}
        kind = forms.IntegerField if is_whole else forms.FloatField
        return kind(label=label, required=False, widget=widget, **limits)
    if name == "metadata":
        return forms.CharField(
            label=_("Files with this metadata"),
            required=False,
            max_length=10_000,
            widget=forms.TextInput(attrs={"placeholder": '{"lang": "zh"}'}),
        )
    return forms.CharField(
        label=_("Content types"),
        required=False,
        max_length=2000,
        widget=forms.TextInput(attrs={"placeholder": ", ".join(own) or "document"}),
    )


class SettingsWidget(forms.Widget):
    """Renders all settings as a grid with help texts; empty fields are defaults."""

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
    """Valid retrieval settings as a JSON object of those that differ from the defaults."""

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
                    f"{form[name].label}: {message}"
                    for name, errors in form.errors.items()
                    for message in errors
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
        shown = ((form.fields.get(name), value) for name, value in _stored(value).items())
        return ", ".join(
            f"{field.label}: {_value_label(field, value)}" for field, value in shown if field
        )

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


def _value_label(field: forms.Field, value: Any) -> Any:
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
