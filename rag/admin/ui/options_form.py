"""Form class from the JSON schema of a plugin's options (``rag.core.options.schema_of``).

The form accepts what the schema accepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.forms.utils import pretty_name
from django.utils.functional import lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from rag.admin.ui import theme
from rag.admin.ui.messages import error_sentence
from rag.conf import conf
from rag.core.options import find_option_errors

_EMPTY = "---------"
# Help texts come from plugins: translated when shown, in the reader's language.
_later: Any = lazy(lambda text: gettext(text) if text else "", str)


class OptionsForm(forms.Form):
    """A form of which each field is an option; made by ``options_form``."""

    schema: Mapping[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            if isinstance(field, _SecretField):
                field.keep(self.get_initial_for_field(field, name))

    def options(self) -> dict[str, Any]:
        """Return the options of a valid form; empty fields keep their defaults."""
        return {
            name: value
            for name, value in self.cleaned_data.items()
            if not (value is None and "null" not in _types(self.schema["properties"][name]))
        }

    def clean(self) -> dict[str, Any]:
        """Validate the input against the schema; errors are shown beside their fields."""
        cleaned = super().clean() or self.cleaned_data
        given = {name: value for name, value in self.options().items() if name not in self.errors}
        for name, fault in find_option_errors(self.schema, given, of=gettext("the plugin")).items():
            if name not in self.errors:
                self.add_error(name, error_sentence(fault))
        return cleaned


class _LinesField(forms.CharField):
    """A list, one item a line; blank lines do not count."""

    def __init__(self, *, kind: str, **kwargs: Any) -> None:
        self.kind = kind
        super().__init__(widget=theme.Textarea({"rows": 4}), **kwargs)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(map(str, value)) if isinstance(value, list | tuple) else value

    def clean(self, value: Any) -> Any:
        lines = [line.strip() for line in super().clean(value).splitlines()]
        makers: dict[str, Any] = {"integer": int, "number": float, "boolean": _parse_bool}
        found = []
        for line in filter(None, lines):
            try:
                found.append(makers.get(self.kind, str)(line))
            except (ValueError, KeyError) as error:
                raise forms.ValidationError(
                    _("“%(line)s” is not of the type %(kind)s."),
                    params={"line": line, "kind": self.kind},
                ) from error
        return found


class _ObjectField(forms.JSONField):
    """A JSON object."""

    def clean(self, value: Any) -> Any:
        found = super().clean(value)
        if found is not None and not isinstance(found, dict):
            raise forms.ValidationError(
                _("Write a JSON object, such as {example}.").format(example='{"year": 2024}')
            )
        return found


class _TextField(forms.CharField):
    """A text as it was typed, spaces at its ends and all; lines end as they do in files."""

    def clean(self, value: Any) -> Any:
        found = super().clean(value)
        return found.replace("\r\n", "\n") if found else found


class _SecretField(forms.TypedChoiceField):
    """The name of a secret of this installation; never its value."""

    def keep(self, name: Any) -> None:
        """Keep a stored name that no longer exists, so that saving does not change it unseen."""
        if name and not self.valid_value(name):
            gone = gettext("{name} (does not exist)").format(name=name)
            known: Any = self.choices
            self.choices = [*known, (name, gone)]


def options_form(schema: Mapping[str, Any]) -> type[OptionsForm]:
    """Return a form class for the options of a plugin; ``initial`` are options as stored."""
    fields = {
        name: _field(name, shape, is_required=name in schema["required"])
        for name, shape in schema["properties"].items()
    }
    form: type[OptionsForm] = type("PluginOptionsForm", (OptionsForm,), fields)
    # Not among the fields: an option may be called so too.
    form.schema = schema
    return form


def _types(shape: Mapping[str, Any]) -> list[str]:
    return [shape["type"]] if isinstance(shape["type"], str) else list(shape["type"])


def _field(name: str, shape: Mapping[str, Any], *, is_required: bool) -> forms.Field:
    kind = _types(shape)[0]
    is_nullable = "null" in _types(shape)
    common: dict[str, Any] = {
        "label": _later(pretty_name(name)),
        "help_text": _later(shape["description"]),
        "initial": shape.get("default"),
        "required": is_required and not is_nullable,
    }
    if "x-secret" in shape or "enum" in shape:
        return _choice(shape, common, is_nullable=is_nullable)
    if kind == "boolean":
        if is_nullable:
            widget = theme.NullBooleanSelect()
            return forms.NullBooleanField(**common, widget=widget)
        common["required"] = False
        return forms.BooleanField(**common, widget=theme.Switch())
    if kind in ("integer", "number"):
        limits: dict[str, Any] = {
            "min_value": shape.get("minimum"),
            "max_value": shape.get("maximum"),
        }
        limits["widget"] = theme.IntegerInput()
        if kind == "integer":
            return forms.IntegerField(**common, **limits)
        return forms.FloatField(**common, **limits)
    if kind == "array":
        return _LinesField(kind=shape["items"]["type"], **common)
    if kind == "object":
        return _ObjectField(**common, widget=theme.Textarea({"rows": 4}))
    empty: dict[str, Any] = {"empty_value": None if is_nullable else "", "strip": False}
    return _TextField(**common, **empty, widget=theme.ExpandableTextarea())


def _choice(
    shape: Mapping[str, Any], common: dict[str, Any], *, is_nullable: bool
) -> forms.TypedChoiceField:
    is_secret = "x-secret" in shape
    names = sorted(conf().secrets) if is_secret else [one for one in shape["enum"] if one]
    may_be_empty = is_nullable or (is_secret and not common["required"])
    if not may_be_empty:
        common["required"] = True
    blank = [("", _EMPTY)] if may_be_empty or common["initial"] is None else []
    choices = [*blank, *((name, name) for name in names)]
    common["empty_value"] = None if is_nullable else ""
    make = _SecretField if is_secret else forms.TypedChoiceField
    return make(**common, choices=choices, widget=theme.Select())


def _parse_bool(line: str) -> bool:
    return {"true": True, "false": False}[line.lower()]
