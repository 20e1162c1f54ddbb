"""State serialization: what nodes return as JSON that a database stores, and back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from agents.core.state import Replace
from rag.core.errors import ConfigurationError

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def to_storable(update: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node's update as JSON values that Postgres keeps; ``Replace`` stays what it is.

    NUL and halves of characters become U+FFFD, NaN and infinity None. Raises ConfigurationError
    for what is no JSON.
    """
    return {
        key: Replace(_plain(value.value)) if isinstance(value, Replace) else _plain(value)
        for key, value in update.items()
    }


def pack_update(update: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return an update as JSON alone; ``unpack_update`` reads it."""
    return {
        "merge": {key: one for key, one in update.items() if not isinstance(one, Replace)},
        "replace": {key: one.value for key, one in update.items() if isinstance(one, Replace)},
    }


def unpack_update(record: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the update that ``pack_update`` was given."""
    return {**record["merge"], **{key: Replace(value) for key, value in record["replace"].items()}}


def _plain(value: Any) -> Any:
    try:
        text = _written(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            "A state of a flow can hold only JSON: {reason}.", reason=error
        ) from error
    if "\\u0000" in text or _UNSTORABLE.search(text):
        return _clean(json.loads(text))
    return json.loads(text)


def _written(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return value


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_clean(key): _clean(one) for key, one in value.items()}
    return [_clean(one) for one in value] if isinstance(value, list) else value
