"""Whether an answer has the form that was asked for. In: a JSON schema, an object. Out: a fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KINDS: dict[str, Any] = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list,
    "object": dict, "null": type(None),
}  # fmt: skip


def schema_fault(schema: Mapping[str, Any], value: Mapping[str, Any]) -> str:
    """Return what of ``required``, ``type`` and ``enum`` an object breaks, empty for nothing.

    Looks at the object's own keys only: what lies deeper is the reader's to judge.
    """
    missing = [name for name in schema.get("required") or () if name not in value]
    if missing:
        return f"“{missing[0]}” is missing."
    for name, shape in (schema.get("properties") or {}).items():
        if name in value and isinstance(shape, Mapping):
            kinds = shape.get("type")
            wanted = [kinds] if isinstance(kinds, str) else list(kinds or ())
            if wanted and not any(_is_a(value[name], kind) for kind in wanted):
                return f"“{name}” is not of type {' or '.join(wanted)}."
            allowed = shape.get("enum")
            if allowed and value[name] not in allowed:
                return f"“{name}” is none of {', '.join(map(str, allowed))}."
    return ""


def _is_a(value: Any, kind: str) -> bool:
    if isinstance(value, bool) and kind != "boolean":
        return False
    return isinstance(value, _KINDS.get(kind, object))
