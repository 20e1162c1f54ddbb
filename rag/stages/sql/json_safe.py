"""JSON serialization of database values and column names.

What has no exact place in JSON becomes text: nothing is rounded. A repeated column name gets a
number, so that no value is lost.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence, Set
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

# JSONB takes no NUL, and UTF-8 no lone surrogate.
_UNSTORABLE = {0: "\ufffd", **dict.fromkeys(range(0xD800, 0xE000), "\ufffd")}
_MAX_DEPTH = 50
# Python writes no whole number of more digits, sys.get_int_max_str_digits(), nor of so many bits.
_MAX_DIGITS, _MAX_BITS = 4300, 14_000


def json_safe(value: Any, *, depth: int = 0) -> Any:
    """Return ``value`` as None, bool, int, finite float, str, list or dict with text keys.

    Dates are ISO 8601; a Decimal is a number where a float holds it exactly as written, else a
    text; NaN and infinities are texts (as Postgres writes them in JSON); bytes are base64.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return json_safe(value.value, depth=depth + 1)
    if isinstance(value, str):
        return value.translate(_UNSTORABLE)
    if isinstance(value, int):
        return int(value) if value.bit_length() < _MAX_BITS else str(Decimal(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _not_finite(value)
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if depth < _MAX_DEPTH:
        if isinstance(value, Mapping):
            return {
                str(key).translate(_UNSTORABLE): json_safe(one, depth=depth + 1)
                for key, one in value.items()
            }
        if isinstance(value, (Sequence, Set)):
            return [json_safe(one, depth=depth + 1) for one in value]
    return str(value).translate(_UNSTORABLE)


def _number(value: Decimal) -> Any:
    if not value.is_finite():
        return _not_finite(value)
    if value.as_tuple().exponent == 0 and value.adjusted() < _MAX_DIGITS:
        return int(value)
    near = float(value)
    return near if math.isfinite(near) and Decimal(repr(near)) == value else str(value)


def _not_finite(value: float | Decimal) -> str:
    if value.is_nan() if isinstance(value, Decimal) else math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def column_names(names: Sequence[str]) -> list[str]:
    """Return the names in their order; a repeated one gets a number, so that no value is lost."""
    taken: set[str] = set()
    chosen = []
    for name in names:
        fresh, number = name, 2
        while fresh in taken or (fresh != name and fresh in names):
            fresh, number = f"{name}_{number}", number + 1
        taken.add(fresh)
        chosen.append(fresh)
    return chosen
