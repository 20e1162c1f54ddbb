"""Output parsing: JSON variables in a model's answer, checked against a schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_TRIES = 200
_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)(?:\n[ \t]*```|\Z)", re.S)
# What is for the reader, not for routing.
_FOR_READERS = ("response_content", "reasoning_summary")


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """``response_content`` is for people, ``variables`` decide on edges.

    ``is_parsed`` False: there was no JSON object, and the whole text is the response.
    """

    response_content: str
    reasoning_summary: str = ""
    variables: Mapping[str, Any] = field(default_factory=dict)
    is_parsed: bool = True


def parse_output(text: str) -> ModelOutput:
    """Return what the last JSON object in ``text`` says, be it alone, fenced or amid other text.

    All its keys but response_content and reasoning_summary are variables, those of
    ``additional_fields`` too; on a clash the outer one counts.
    """
    # A model that thinks aloud writes drafts first.
    found = next(find_json_objects(text, last_first=True), None)
    if found is None:
        return ModelOutput(text.strip(), is_parsed=False)
    extra = found.get("additional_fields")
    variables = dict(extra) if isinstance(extra, dict) else {}
    skipped = (*_FOR_READERS, *(["additional_fields"] if isinstance(extra, dict) else []))
    variables |= {key: value for key, value in found.items() if key not in skipped}
    response, summary = (found.get(key) for key in _FOR_READERS)
    return ModelOutput(_text(response), _text(summary), variables)


def find_json_objects(text: str, *, last_first: bool = False) -> Iterator[dict[str, Any]]:
    """Yield JSON objects, likeliest first: the whole text, fenced blocks, the longest inside.

    ``last_first``: of several blocks, and of those inside, the last comes first.
    """
    blocks = [match[1] for match in _FENCE.finditer(text)]
    for part in (text, *(reversed(blocks) if last_first else blocks)):
        try:
            value = json.loads(part.strip(), parse_constant=_refuse)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value
    inside, position = [], text.find("{")
    decoder = json.JSONDecoder(parse_constant=_refuse)
    for _ in range(MAX_TRIES):
        if position < 0:
            break
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            if isinstance(value, dict) and value:
                inside.append((end - position, value))
        position = text.find("{", end)
    likeliest = reversed(inside) if last_first else sorted(inside, key=lambda pair: -pair[0])
    yield from (value for _, value in likeliest)


def _refuse(constant: str) -> None:
    # NaN and Infinity are no JSON, and no state could hold them.
    raise ValueError(constant)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_KINDS: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def schema_error(schema: Mapping[str, Any], value: Mapping[str, Any]) -> str:
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
