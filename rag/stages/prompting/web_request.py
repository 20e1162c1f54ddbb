"""Web request templates: values go into a path percent-encoded, into parameters as values.

None can become another parameter, another path or another host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from rag.core.errors import InvalidInputError
from rag.stages.prompting.templates import fill_placeholders


def fill_query(template: str, values: Mapping[str, Any]) -> str:
    """Return a part of an address with its values percent-encoded."""
    return str(fill_placeholders(template, values, encode=lambda text: quote(text, safe="")))


def fill_path(path: str, values: Mapping[str, Any]) -> str:
    """Return a path; raise InvalidInputError for a value that would climb out of it."""
    segments = path.split("/")
    filled = [fill_query(segment, values) for segment in segments]
    for before, after in zip(segments, filled, strict=True):
        if before != after and after in ("", ".", ".."):
            raise InvalidInputError(
                "The value of {placeholder} cannot stand in the path of the address.",
                hint="It is empty or only dots.",
                placeholder=before,
            )
    return "/".join(filled)


def fill_parameters(
    part: str, templates: Mapping[str, Any], values: Mapping[str, Any]
) -> dict[str, str]:
    """Return parameters or headers (``part``) as texts; what is null is not sent."""
    texts = {}
    for name, value in fill_placeholders(templates, values).items():
        if isinstance(value, bool):
            texts[str(name)] = "true" if value else "false"
        elif isinstance(value, (str, int, float)):
            texts[str(name)] = str(value)
        elif value is not None:
            raise InvalidInputError(
                "“{name}” in {part} is neither a text nor a number nor a boolean.",
                hint="Lists and objects can only be sent in the body.",
                name=name,
                part=part,
            )
    return texts
