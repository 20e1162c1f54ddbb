"""Fills ``{{node.field}}`` from what earlier nodes gave. In: template, context. Out: text, value.

Names are looked up, never evaluated; a value's own braces are left as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PLACEHOLDER = re.compile(r"\{\{([^{}]+)\}\}")
_INDEX = re.compile(r"\[(\d{1,9})\]")
_MISSING = object()
META = "_meta"


@dataclass(frozen=True, slots=True)
class Resolution:
    """A filled template. ``value`` is the thing itself when the template is one placeholder and
    nothing else, otherwise the text; ``missing`` lists what was not found, in order, once each."""

    text: str
    value: Any
    missing: tuple[str, ...] = ()


def resolve_template(template: str, context: Mapping[str, Any]) -> Resolution:
    """Return ``template`` with each ``{{path}}`` filled from ``context``, node id to its output.

    A path is ``node.field``, by id, else by the label in ``context["_meta"]["nodeLabels"]`` (id to
    label); or a ``field`` of any node, the first that has it. Fields may be nested (``a.b``) and
    indexed (``files[0].url``). What is not found gives an empty text and value None.
    """
    missing: dict[str, None] = {}

    def filled(match: re.Match[str]) -> str:
        value = _look_up(match[1].strip(), context)
        if value is _MISSING:
            missing[match[1].strip()] = None
        return _text(None if value is _MISSING else value)

    text = _PLACEHOLDER.sub(filled, template)
    whole = _PLACEHOLDER.fullmatch(template.strip())
    if whole is None:
        return Resolution(text, text, tuple(missing))
    value = _look_up(whole[1].strip(), context)
    return Resolution(text, None if value is _MISSING else value, tuple(missing))


def _look_up(path: str, context: Mapping[str, Any]) -> Any:
    for start, rest in _starts(path, context):
        value = _inside(start, rest)
        if value is not _MISSING:
            return value
    return _MISSING


def _starts(path: str, context: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """Yield the things that the path may begin at with what is left of it, likeliest first."""
    meta = context.get(META)
    labels = meta.get("nodeLabels") if isinstance(meta, Mapping) else None
    ids = {str(label): node for node, label in reversed(list(labels.items()))} \
        if isinstance(labels, Mapping) else {}  # fmt: skip
    # An id or label may itself contain dots: the longest that fits.
    heads = [path[:end] for end in _ends(path)]
    for head in heads:
        if head != META and head in context:
            yield context[head], path[len(head) :]
    for head in heads:
        if ids.get(head) in context:
            yield context[ids[head]], path[len(head) :]
    for node, output in context.items():
        if node != META and isinstance(output, Mapping):
            yield output, f".{path}"


def _ends(path: str) -> list[int]:
    inner = [place for place, character in enumerate(path) if character in ".[" and place]
    return [len(path), *reversed(inner)]


def _inside(value: Any, rest: str) -> Any:
    while rest:
        if index := _INDEX.match(rest):
            number = int(index[1])
            is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
            if not is_list or number >= len(value):
                return _MISSING
            value, rest = value[number], rest[index.end() :]
        elif rest[0] == "." and isinstance(value, Mapping):
            # A field's name may contain dots and brackets, like the head's.
            name = next((rest[1:end] for end in _ends(rest) if rest[1:end] in value), None)
            if name is None:
                return _MISSING
            value, rest = value[name], rest[1 + len(name) :]
        else:
            return _MISSING
    return value


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
