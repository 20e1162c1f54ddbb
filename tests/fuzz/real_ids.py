"""Hooks of schemathesis: what refers to rows, or to each other, is true in requests that are meant to be right.

What is meant to be wrong stays wrong.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import schemathesis

# By the beginning of the path what its parameters are; "query" and "body" by name.
_IDS: dict[str, dict[str, Any]] = json.loads(os.environ.get("FUZZ_IDS", "{}"))


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Put rows that are there into a request, unless it is meant to be refused."""
    if case.meta is not None and case.meta.generation.mode.is_negative:
        return
    path = case.operation.path
    known = next((ids for start, ids in _IDS.items() if path.startswith(start)), {})
    for name in set(case.path_parameters or {}) & set(known):
        case.path_parameters[name] = known[name]
    if isinstance(case.query, dict):
        # A cursor comes of the page before, and of nowhere else.
        case.query.pop("cursor", None)
        case.query.update({n: v for n, v in _IDS.get("query", {}).items() if n in case.query})
    case.body = _true(case.body, {**_IDS.get("body", {}), **known.get("body", {})})


def _true(value: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {name: known.get(name, _true(inner, known)) for name, inner in value.items()}
    return [_true(one, known) for one in value] if isinstance(value, list) else value
