"""Fills ``{name}`` from given values. In: a template of texts, lists and dicts. Out: one filled.

Names are looked up, never evaluated; a value's own braces are left as they are, and so are all
braces of the template that hold no name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

from rag.core.errors import InvalidInputError, UnknownNameError

_NAME = r"[^\W\d]\w*"
_PLACEHOLDER = re.compile(rf"\{{({_NAME})\}}")
# What str.format would follow into a value; sent as it stands it would be a silent mistake.
_LOOKALIKE = re.compile(rf"\{{{_NAME}\s*[.\[!][^{{}}]*\}}")


def fill_placeholders(
    template: Any, values: Mapping[str, Any], *, encode: Callable[[str], str] = str
) -> Any:
    """Return ``template`` with each ``{name}`` in its texts replaced by the value of that name.

    A text that is one placeholder and nothing else becomes the value itself, with its type; inside
    a text only texts, numbers, booleans, dates and ids may stand, each passed through ``encode``.
    Keys of dicts are left alone. Raises UnknownNameError for a name without a value, and
    InvalidInputError for ``{name.part}`` and for a value that has no place inside a text.
    """
    if isinstance(template, Mapping):
        return {key: fill_placeholders(one, values, encode=encode) for key, one in template.items()}
    if isinstance(template, list):
        return [fill_placeholders(one, values, encode=encode) for one in template]
    if not isinstance(template, str):
        return template
    if found := _LOOKALIKE.search(template):
        raise InvalidInputError(
            "“{text}” is no placeholder.", hint="Placeholders are bare names, like {example}.",
            text=found[0], example="{user_query}",
        )  # fmt: skip
    alone = _PLACEHOLDER.fullmatch(template)
    if alone and encode is str:
        return _checked(alone[1], values)
    return _PLACEHOLDER.sub(lambda match: encode(_text(match[1], values)), template)


def _checked(name: str, values: Mapping[str, Any]) -> Any:
    if name not in values:
        raise UnknownNameError("placeholder", name, values)
    value = values[name]
    if isinstance(value, (date, Decimal, UUID)):
        return str(value)
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidInputError(
                "The text “{name}” holds half a character.", hint="Enter it again.", name=name
            ) from None
    return value


def _text(name: str, values: Mapping[str, Any]) -> str:
    value = _checked(name, values)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise InvalidInputError(
        "“{name}” has no value that could stand inside a text.",
        hint="Only texts, numbers and booleans can; where JSON is sent, let {example} stand alone.",
        name=name, example=f"{{{name}}}",
    )  # fmt: skip
