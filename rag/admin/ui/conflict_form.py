"""Rows of an inline form, as sent and as stored since. In: a form's data, rows. Out: one list.

Forms that two people may have open at once. In: what one saw and typed. Out: what changed since.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.db.models import Model, QuerySet
from django.utils import formats, timezone
from django.utils.text import Truncator
from django.utils.translation import gettext as _

from rag import models
from rag.admin.ui.paginator import asked_number

NAMES = ("id", "chunk", "file", "grade", "seen", "DELETE")
MAX_ROWS = 1000


def rows_of_now(data: Any, prefix: str, rows: Sequence[Any]) -> tuple[Any, int, int]:
    """Return the data with the stored rows in their order, how many came since, how many went.

    What was typed in a row that is there stays typed, and so do the new ones.
    """
    n_had, n_all = (
        min(asked_number(data.get(f"{prefix}-{name}_FORMS")), MAX_ROWS)
        for name in ("INITIAL", "TOTAL")
    )
    sent = [_sent(data, f"{prefix}-{n}-") for n in range(n_all)]
    had = {line.get("id", ""): line for line in sent[:n_had]}
    now = {str(row.pk): row for row in rows}
    if had.keys() == now.keys():
        return data, 0, 0
    lines = [*(had.get(pk) or _stored(row) for pk, row in now.items()), *sent[n_had:]]
    merged = data.copy()
    for n in range(n_all):
        for name in NAMES:
            merged.pop(f"{prefix}-{n}-{name}", None)
    for n, line in enumerate(lines):
        merged.update({f"{prefix}-{n}-{name}": value for name, value in line.items()})
    merged[f"{prefix}-INITIAL_FORMS"] = str(len(now))
    merged[f"{prefix}-TOTAL_FORMS"] = str(len(lines))
    return merged, len(now.keys() - had.keys()), len(had.keys() - now.keys())


def _sent(data: Any, start: str) -> dict[str, str]:
    return {name: data[start + name] for name in NAMES if start + name in data}


def _stored(row: Any) -> dict[str, str]:
    values = {"chunk": row.chunk_id, "file": row.file_id, "grade": row.grade}
    sent = {name: str(value or "") for name, value in values.items()}
    return {"id": str(row.pk), **sent, "seen": json.dumps(values)}


class SeenForm(forms.ModelForm):  # type: ignore[type-arg]
    """A form whose second saver is told what the first one changed; ``audit_kinds`` say who."""

    seen = forms.CharField(required=False, widget=forms.HiddenInput)
    audit_kinds: tuple[str, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.instance._state.adding:
            self.initial["seen"] = json.dumps(_plain(self.stored(self.instance)))

    def rows(self) -> QuerySet[Any]:
        """Return the rows among which the form's own is looked up once more."""
        rows: QuerySet[Any] = type(self.instance)._default_manager.all()
        return rows

    def stored(self, row: Model) -> dict[str, Any]:
        """Return the values that the form shows of a row."""
        return forms.models.model_to_dict(row, fields=[*self.fields])

    def clean(self) -> dict[str, Any] | None:
        """Return all values; an error where somebody else changed what this form showed."""
        cleaned = super().clean()
        if "seen" in self.fields and not self.instance._state.adding:
            seen = _read(self.data.get(self.add_prefix("seen")))
            # Whoever saves at this moment is waited for, and waits for us.
            rows = self.rows().select_for_update(of=("self",))
            row = rows.filter(pk=self.instance.pk).first()
            if row is None:
                raise forms.ValidationError(_("This was deleted meanwhile."))
            self._compare(seen, _plain(self.stored(row)))
        return cleaned

    def _compare(self, seen: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        told = False
        for name, field in self.fields.items():
            if name == "seen" or name not in seen or seen[name] == now.get(name):
                continue
            typed = self[name].data
            if not field.has_changed(now.get(name), typed):
                continue
            values = {"before": _said(field, seen[name]), "now": _said(field, now.get(name))}
            if field.has_changed(seen[name], typed):
                text = _(
                    "Changed meanwhile from “%(before)s” to “%(now)s”; what you typed stands here "
                    "still and would replace it."
                )
            else:
                text = _("Changed meanwhile from “%(before)s” to “%(now)s”, which stands here now.")
                _show(field, now.get(name))
            self.add_error(name, text % values)
            told = True
        if told:
            self.add_error(None, self._who())
            _show(self.fields["seen"], json.dumps(now))

    def _who(self) -> str:
        entries = models.AuditEntry.objects.filter(
            object_id=self.instance.pk, kind__in=self.audit_kinds
        )
        last = entries.first()
        if last is None or not last.username:
            return _("This was changed meanwhile, so nothing is saved yet: look, and save again.")
        values = {
            "name": last.username,
            "at": formats.date_format(timezone.localtime(last.at), "DATETIME_FORMAT"),
        }
        text = _(
            "%(name)s changed this meanwhile (%(at)s), so nothing is saved yet: look, and save "
            "again."
        )
        return text % values


def _show(field: forms.Field, value: Any) -> None:
    """Let a form that was sent show ``value`` instead of what was sent."""
    field.bound_data = lambda data, initial: value  # type: ignore[method-assign]


def _read(text: Any) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as JSON would give them back, rows by their numbers."""
    text = json.dumps(
        {name: _numbers(value) for name, value in values.items() if name != "seen"}, default=str
    )
    return dict(json.loads(text))


def _numbers(value: Any) -> Any:
    is_rows = isinstance(value, list) and all(isinstance(one, Model) for one in value)
    return sorted(one.pk for one in value) if is_rows else value


def _said(field: forms.Field, value: Any) -> str:
    """Return a value as people read it."""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(field, forms.ModelChoiceField):
        wanted = value if isinstance(value, list) else [value]
        rows = field.queryset.filter(pk__in=[one for one in wanted if one is not None])  # type: ignore[union-attr]
        value = ", ".join(map(str, rows))
    elif isinstance(field, forms.ChoiceField):
        value = dict(field.choices).get(value, value)  # type: ignore[arg-type]
    elif hasattr(field, "described"):
        value = field.described(value)
    elif isinstance(field, forms.JSONField) and value:
        value = json.dumps(value, ensure_ascii=False)
    return Truncator("–" if value in (None, "", {}, []) else str(value)).chars(300)
