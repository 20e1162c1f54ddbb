"""The form of an agent. In: what a person typed. Out: values that the services will accept.

The config is no JSON here: each of its values is a field, read off its dataclass.
"""

from __future__ import annotations

from typing import Any

from django import forms

from agents import models
from agents.admin.config_texts import config_label
from agents.core.agent_config import AgentConfig
from rag.admin.options_form import OptionsForm, options_form
from rag.core.options import schema_of

PREFIX = "config_"
SCHEMA = schema_of(AgentConfig)
CONFIG_FIELDS = tuple(f"{PREFIX}{name}" for name in SCHEMA["properties"])


def _config_form(*args: Any, **kwargs: Any) -> OptionsForm:
    return options_form(SCHEMA)(*args, **kwargs)


class _ModelForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = models.Agent
        exclude = ("config", "is_builtin")


class _Named(_ModelForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        given = {**AgentConfig().as_dict(), **(self.instance.config or {})}
        for name, value in given.items():
            self.initial.setdefault(f"{PREFIX}{name}", value)

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


def _fields() -> dict[str, forms.Field]:
    fields = {}
    for name, field in _config_form().fields.items():
        field.label = config_label(name)
        fields[f"{PREFIX}{name}"] = field
    return fields


AgentForm: Any = type("AgentForm", (_Named,), {**_fields(), "__module__": __name__})
