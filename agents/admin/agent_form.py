"""Agent form: each value of the JSON config is a form field, derived from ``AgentConfig``."""

from __future__ import annotations

from typing import Any

from django import forms

from agents import models
from agents.admin.config_labels import choice_label, config_label
from agents.core.agent_config import AgentConfig
from rag.admin.ui.conflict_form import ConflictCheckedForm
from rag.admin.ui.options_form import OptionsForm, options_form
from rag.core.options import schema_of
from rag.services.plugins import list_plugins

PREFIX = "config_"
# Files the rerankers of all plugins, which are choices of the form.
list_plugins(kind="reranker")
SCHEMA = schema_of(AgentConfig)
CONFIG_FIELDS = tuple(f"{PREFIX}{name}" for name in SCHEMA["properties"])


def _config_form(*args: Any, **kwargs: Any) -> OptionsForm:
    return options_form(SCHEMA)(*args, **kwargs)


class _ModelForm(ConflictCheckedForm):
    audit_kinds = ("agent", "agent stores", "agent readers", "agent editors")

    class Meta:
        model = models.Agent
        exclude = ("config", "is_builtin")


class _Named(_ModelForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, value in _config_of(self.instance).items():
            self.initial.setdefault(name, value)

    def stored(self, row: Any) -> dict[str, Any]:
        return {**super().stored(row), **_config_of(row)}

    def clean(self) -> dict[str, Any]:
        """Hold the config against its schema; a fault is shown beside its field."""
        cleaned = super().clean() or self.cleaned_data
        if not any(name in self.fields for name in CONFIG_FIELDS):
            return cleaned
        names = list(SCHEMA["properties"])
        inner: Any = _config_form()
        inner.cleaned_data = {name: cleaned.get(f"{PREFIX}{name}") for name in names}
        inner._errors = forms.utils.ErrorDict()
        inner.clean()
        for name, faults in inner.errors.items():
            if f"{PREFIX}{name}" not in self.errors:
                self.add_error(f"{PREFIX}{name}", list(faults))
        return cleaned

    def config(self) -> dict[str, Any]:
        """Return what differs from the defaults, and what was stored for no field of ours."""
        defaults = AgentConfig().as_dict()
        given = {name: self.cleaned_data.get(f"{PREFIX}{name}") for name in defaults}
        return {
            name: value
            for name, value in given.items()
            if value is not None and value != defaults[name]
        }


def _config_of(agent: models.Agent) -> dict[str, Any]:
    given = {**AgentConfig().as_dict(), **(agent.config or {})}
    return {f"{PREFIX}{name}": value for name, value in given.items()}


def _fields() -> dict[str, forms.Field]:
    fields = {}
    for name, field in _config_form().fields.items():
        field.label = config_label(name)
        if isinstance(field, forms.ChoiceField):
            known: Any = field.choices
            field.choices = [(value, choice_label(value)) for value, _ in known]
        fields[f"{PREFIX}{name}"] = field
    return fields


AgentForm: Any = type("AgentForm", (_Named,), {**_fields(), "__module__": __name__})
