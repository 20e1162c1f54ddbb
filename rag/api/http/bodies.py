"""JSON bodies: one strict, bounded parser for DRF and django-ninja."""

from __future__ import annotations

import json
import math
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from ninja.parser import Parser
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.parsers import JSONParser

from rag.core.errors import InvalidInputError, LimitError

# Each name of an object costs a check wherever it comes by; real requests have a few thousand.
_MAX_DEPTH, _MAX_NAMES = 50, 100_000


def read_json(body: bytes, limit: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE) -> Any:
    """Return the value of a JSON text in UTF-8.

    Raises LimitError over ``limit`` bytes (5 MB); InvalidInputError for what is no JSON, is nested
    too deep, or holds NULs, halves of characters, numbers without end or too many names.
    """
    if len(body) > limit:
        raise LimitError("The request is larger than {limit} MB.", limit=limit // 1024**2)
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_no_number)
        if _check(value, 0) > _MAX_NAMES:
            raise ValueError(f"its objects have more than {_MAX_NAMES} names")
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            "The request is not valid JSON: {reason}.", hint="Send JSON in UTF-8.", reason=error
        ) from error
    return value


def read_json_object(
    request: HttpRequest, limit: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
) -> dict[str, Any]:
    """Return the JSON object of a request's body; InvalidInputError for everything else."""
    if request.content_type != "application/json":
        raise InvalidInputError(
            "The request's type of content is not accepted here.", hint="Send application/json."
        )
    body = read_json(request.read(limit + 1), limit)
    if not isinstance(body, dict):
        raise InvalidInputError("The request is no JSON object.")
    return body


class LimitedJSONParser(JSONParser):  # type: ignore[misc]  # DRF has no types
    """DRF's way to ``read_json``."""

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        """Return the value of the stream, of which no more is read than is allowed."""
        return read_json(stream.read(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1))


class BodyParser(Parser):
    """Ninja's way to ``read_json``."""

    def parse_body(self, request: HttpRequest) -> Any:
        """Return the body's value; another type of content than JSON is a 415."""
        if request.content_type != "application/json":
            raise UnsupportedMediaType(request.content_type)
        return read_json(request.body)


def _check(value: Any, depth: int) -> int:
    """Return how many names the objects have in all."""
    if depth > _MAX_DEPTH:
        raise ValueError("it is nested too deep")
    n_names = 0
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("a text holds a NUL")
        value.encode("utf-8")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("a number is too large")
    elif isinstance(value, dict):
        for name, inner in value.items():
            _check(name, depth + 1)
            n_names += 1 + _check(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            n_names += _check(inner, depth + 1)
    return n_names


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")
