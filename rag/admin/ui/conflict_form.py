"""Optimistic locking of forms: whoever saves second is shown what changed since it opened.

Also merges the rows of an inline formset as sent with those as stored.
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
from rag.admin.ui.query_params import parse_int

NAMES = ("id", "chunk", "file", "grade", "seen", "DELETE")
MAX_ROWS = 1000


def merge_inline_rows(data: Any, prefix: str, rows: Sequence[Any]) -> tuple[Any, int, int]:
    """Return formset data with the stored rows in order, and how many were added and deleted.

    Values typed into rows that still exist are kept, and so are new rows.
    """
    n_had, n_all = (
        min(parse_int(data.get(f"{prefix}-{name}_FORMS")), MAX_ROWS)
        for name in ("INITIAL", "TOTAL")
    )
    sent = [_posted_row(data, f"{prefix}-{n}-") for n in range(n_all)]
    had = {line.get("id", ""): line for line in sent[:n_had]}
    now = {str(row.pk): row for row in rows}
    if had.keys() == now.keys():
        return data, 0, 0
    lines = [*(had.get(pk) or _stored_row(row) for pk, row in now.items()), *sent[n_had:]]
    merged = data.copy()
    for n in range(n_all):
        for name in NAMES:
            merged.pop(f"{prefix}-{n}-{name}", None)
    for n, line in enumerate(lines):
        merged.update({f"{prefix}-{n}-{name}": value for name, value in line.items()})
    merged[f"{prefix}-INITIAL_FORMS"] = str(len(now))
    merged[f"{prefix}-TOTAL_FORMS"] = str(len(lines))
    return merged, len(now.keys() - had.keys()), len(had.keys() - now.keys())


def _posted_row(data: Any, start: str) -> dict[str, str]:
    return {name: data[start + name] for name in NAMES if start + name in data}


def _stored_row(row: Any) -> dict[str, str]:
    values = {"chunk": row.chunk_id, "file": row.file_id, "grade": row.grade}
    sent = {name: str(value or "") for name, value in values.items()}
    return {"id": str(row.pk), **sent, "seen": json.dumps(values)}


class ConflictCheckedForm(forms.ModelForm):  # type: ignore[type-arg]
    """A ModelForm with optimistic locking; ``audit_kinds`` find who changed the row meanwhile."""

    seen = forms.CharField(required=False, widget=forms.HiddenInput)
    audit_kinds: tuple[str, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.instance._state.adding:
            self.initial["seen"] = json.dumps(_jsonable(self.stored(self.instance)))

    def rows(self) -> QuerySet[Any]:
        """Return the queryset in which the form's row is locked and compared."""
        rows: QuerySet[Any] = type(self.instance)._default_manager.all()
        return rows

    def stored(self, row: Model) -> dict[str, Any]:
        """Return the values that the form shows of a row."""
        return forms.models.model_to_dict(row, fields=[*self.fields])

    def clean(self) -> dict[str, Any] | None:
        """Return all values; an error beside each field that somebody else changed meanwhile."""
        cleaned = super().clean()
        if "seen" in self.fields and not self.instance._state.adding:
            seen = _read(self.data.get(self.add_prefix("seen")))
            # The row lock makes concurrent saves wait for each other.
            rows = self.rows().select_for_update(of=("self",))
            row = rows.filter(pk=self.instance.pk).first()
            if row is None:
                raise forms.ValidationError(_("This was deleted meanwhile."))
            self._compare(seen, _jsonable(self.stored(row)))
        return cleaned

    def _compare(self, seen: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        is_stale = False
        for name, field in self.fields.items():
            if name == "seen" or name not in seen or seen[name] == now.get(name):
                continue
            typed = self[name].data
            if not field.has_changed(now.get(name), typed):
                continue
            values = {"before": _display(field, seen[name]), "now": _display(field, now.get(name))}
            if field.has_changed(seen[name], typed):
                text = _(
                    "Changed meanwhile from “%(before)s” to “%(now)s”; what you typed stands here "
                    "still and would replace it."
                )
            else:
                text = _("Changed meanwhile from “%(before)s” to “%(now)s”, which stands here now.")
                _show(field, now.get(name))
            self.add_error(name, text % values)
            is_stale = True
        if is_stale:
            self.add_error(None, self._who_changed())
            _show(self.fields["seen"], json.dumps(now))

    def _who_changed(self) -> str:
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


def _jsonable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as JSON would give them back, rows by their numbers."""
    plain = {name: _primary_keys(value) for name, value in values.items() if name != "seen"}
    return dict(json.loads(json.dumps(plain, default=str)))


def _primary_keys(value: Any) -> Any:
    is_rows = isinstance(value, list) and all(isinstance(one, Model) for one in value)
    return sorted(one.pk for one in value) if is_rows else value


def _display(field: forms.Field, value: Any) -> str:
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
