"""The audit in words of people. In: kinds and columns as triggers write them. Out: words.

The kinds are English already; other languages have them in the catalogue.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist
from django.utils.translation import gettext_noop

KINDS = (
    gettext_noop("store"),
    gettext_noop("store readers"),
    gettext_noop("store editors"),
    gettext_noop("file"),
    gettext_noop("file restriction"),
    gettext_noop("deleted passage"),
    gettext_noop("chunk"),
    gettext_noop("key"),
    gettext_noop("key stores"),
    gettext_noop("budget"),
    gettext_noop("space"),
    gettext_noop("reindex run"),
    gettext_noop("agent"),
    gettext_noop("agent stores"),
    gettext_noop("agent readers"),
    gettext_noop("agent editors"),
    gettext_noop("flow"),
    gettext_noop("flow runners"),
    gettext_noop("flow editors"),
    gettext_noop("flow version"),
    gettext_noop("user"),
    gettext_noop("user groups"),
    gettext_noop("user rights"),
    gettext_noop("group"),
    gettext_noop("group rights"),
    gettext_noop("audit"),
)
# Where a kind is not called as its model.
_MODELS = {"key": "apikey", "space": "embeddingspace"}


def column_word(kind: str, column: str) -> str:
    """Return what a column of a kind is called in its form; itself where it is in none."""
    name = column.removesuffix("_id")
    model = _models().get(_MODELS.get(kind, kind.replace(" ", "")))
    try:
        return str(model._meta.get_field(name).verbose_name if model else _named(name))
    except (FieldDoesNotExist, KeyError):
        return column


def _named(name: str) -> Any:
    return _models()[name]._meta.verbose_name


@cache
def _models() -> dict[str, Any]:
    return {str(model._meta.model_name): model for model in apps.get_models()}
