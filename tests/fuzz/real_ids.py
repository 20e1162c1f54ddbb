"""Hooks of schemathesis: ids of rows that are there in place of half of the generated ones."""

from __future__ import annotations

import json
import os
import random
import re
from typing import Any

import schemathesis

# By the beginning of the path: what its parameters may be.
_IDS: dict[str, dict[str, Any]] = json.loads(os.environ.get("FUZZ_IDS", "{}"))
_CHANCE = random.Random(1)


def _is_plain(value: Any) -> bool:
    return isinstance(value, int) or bool(re.fullmatch(r"[0-9a-f-]{1,36}", str(value)))


@schemathesis.hook
def map_path_parameters(context: Any, path_parameters: Any) -> Any:
    """Return the parameters, each second time of a row."""
    known = next((ids for path, ids in _IDS.items() if context.operation.path.startswith(path)), {})
    if not path_parameters or _CHANCE.random() < 0.5:
        return path_parameters
    # What is meant to be wrong stays wrong.
    return {
        name: known.get(name, value) if _is_plain(value) else value
        for name, value in path_parameters.items()
    }


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """Return the body, each second time of stores and agents that are there."""
    if not isinstance(body, dict) or _CHANCE.random() < 0.5:
        return body
    known = _IDS.get("body", {})
    return {name: known.get(name, value) for name, value in body.items()}
