"""Connection form: name, schedule and limits, and a field for each option of the connector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.forms.utils import ErrorDict

from rag import models
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.options_form import options_form
from rag.core.errors import RAGError
from rag.services.connectors import CONNECTION_FIELDS, check_connection

PREFIX = "option_"


class ConnectionForm(forms.ModelForm):  # type: ignore[type-arg]  # not generic at run time
    """A connection of one connector; made by ``connection_form``."""

    connector = ""
    schema: Mapping[str, Any] = {}

    class Meta:
        model = models.Connection
        fields = ("store", *CONNECTION_FIELDS)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.instance.connector = self.instance.connector or self.connector
        for name, value in (self.instance.options or {}).items():
            self.initial.setdefault(f"{PREFIX}{name}", value)

    def clean(self) -> dict[str, Any]:
        """Validate the options against their schema and their connector, beside their fields."""
        cleaned = super().clean() or self.cleaned_data
        shown = [name for name in self.schema.get("properties", ()) if f"{PREFIX}{name}" in cleaned]
        inner: Any = options_form(self.schema)()
        inner.cleaned_data = {name: cleaned[f"{PREFIX}{name}"] for name in shown}
        inner._errors = ErrorDict()
        inner.clean()
        for name, faults in inner.errors.items():
            if f"{PREFIX}{name}" not in self.errors:
                self.add_error(f"{PREFIX}{name}", list(faults))
        self.instance.options = inner.options()
        if not self.errors:
            try:
                check_connection(connection=self.instance)
            except RAGError as error:
                self.add_error(None, error_sentence(error))
        return cleaned


def connection_form(connector: str, schema: Mapping[str, Any]) -> type[ConnectionForm]:
    """Return the form of connections of one connector, by the schema of its options."""
    fields: dict[str, Any] = {
        f"{PREFIX}{name}": field for name, field in options_form(schema)().fields.items()
    }
    values = {**fields, "connector": connector, "schema": schema, "__module__": __name__}
    form: type[ConnectionForm] = type("OneConnectionForm", (ConnectionForm,), values)
    return form
