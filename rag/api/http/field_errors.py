"""Validation errors of pydantic and DRF as dotted field names with sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from django.utils.translation import gettext, gettext_noop

# Pydantic speaks English only; what we do not translate comes as it says it.
_SENTENCES = {
    "missing": gettext_noop("This is needed."),
    "extra_forbidden": gettext_noop("There is no such field."),
    "string_type": gettext_noop("This must be a text."),
    "int_type": gettext_noop("This must be a whole number."),
    "int_parsing": gettext_noop("This must be a whole number."),
    "int_from_float": gettext_noop("This must be a whole number."),
    "float_type": gettext_noop("This must be a number."),
    "float_parsing": gettext_noop("This must be a number."),
    "finite_number": gettext_noop("This must be a number."),
    "bool_type": gettext_noop("This must be true or false."),
    "bool_parsing": gettext_noop("This must be true or false."),
    "list_type": gettext_noop("This must be a list."),
    "text_or_parts": gettext_noop("This must be a text or a list of parts."),
    "short_texts": gettext_noop("This must be a text or texts, each of 1 to 200 characters."),
    "dict_type": gettext_noop("This must be an object."),
    "model_type": gettext_noop("This must be an object."),
    "model_attributes_type": gettext_noop("This must be an object."),
    "literal_error": gettext_noop("Allowed: {expected}."),
    "greater_than_equal": gettext_noop("This must be {ge} or more."),
    "less_than_equal": gettext_noop("This must be {le} or less."),
    "string_too_short": gettext_noop("At least {min_length} characters are needed."),
    "string_too_long": gettext_noop("At most {max_length} characters are allowed."),
    "too_short": gettext_noop("At least {min_length} are needed."),
    "too_long": gettext_noop("At most {max_length} are allowed."),
}
# A request with thousands of wrong fields is wrong in the same way; all would be megabytes.
MAX_FIELDS = 100


def pydantic_fields(errors: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return ninja's errors as sentences by field or parameter; ``""`` is the body as a whole.

    The first ``MAX_FIELDS`` are told.
    """
    found: dict[str, list[str]] = {}
    for error in islice(errors, MAX_FIELDS):
        # The location begins with where the value came from and the argument's name.
        where, argument, *inside = (str(part) for part in error["loc"])
        name = ".".join(inside) or ("" if where == "body" else argument)
        template = _SENTENCES.get(error["type"])
        if template is None:
            sentence = str(error["msg"])
        else:
            sentence = gettext(template).format(**error.get("ctx", {}))
        found.setdefault(name, []).append(sentence)
    return found


def flat_fields(detail: Any, prefix: str = "") -> dict[str, list[str]]:
    """Return DRF's nested details flat: ``{"metadata.a": ["…"]}``; ``MAX_FIELDS`` of each level."""
    if isinstance(detail, Mapping):
        found: dict[str, list[str]] = {}
        for name, inner in islice(detail.items(), MAX_FIELDS):
            own = "" if name in ("non_field_errors", "__all__") else str(name)
            dotted = f"{prefix}.{own}".strip(".")
            for field, sentences in flat_fields(inner, dotted).items():
                found.setdefault(field, []).extend(sentences)
        return found
    if isinstance(detail, (list, tuple)):
        flat: dict[str, list[str]] = {}
        # Of a list's parts the right ones are empty.
        wrong = ((index, inner) for index, inner in enumerate(detail) if inner not in ({}, [], ()))
        for index, inner in islice(wrong, MAX_FIELDS):
            is_nested = isinstance(inner, (Mapping, list, tuple))
            place = f"{prefix}.{index}".strip(".") if is_nested else prefix
            for field, sentences in flat_fields(inner, place).items():
                flat.setdefault(field, []).extend(sentences)
        return flat
    return {prefix: [str(detail)]}
