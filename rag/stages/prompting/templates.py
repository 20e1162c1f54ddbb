"""Templates: ``{name}`` from values, ``{{node.field}}`` from the outputs of earlier nodes.

Names are looked up, never evaluated; a value's own braces are left as they are, and so are all
braces of the template that hold no name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
            "“{text}” is no placeholder.",
            hint="Placeholders are bare names, like {example}.",
            text=found[0],
            example="{user_query}",
        )
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
        name=name,
        example=f"{{{name}}}",
    )


_LOADED_PLACEHOLDER = re.compile(r"\{\{([^{}]+)\}\}")
_INDEX = re.compile(r"\[(\d{1,9})\]")
_MISSING = object()
META = "_meta"


@dataclass(frozen=True, slots=True)
class ResolvedTemplate:
    """A filled template. ``value`` is the thing itself when the template is one placeholder and
    nothing else, otherwise the text; ``missing`` lists what was not found, in order, once each."""

    text: str
    value: Any
    missing: tuple[str, ...] = ()


def resolve_template(template: str, context: Mapping[str, Any]) -> ResolvedTemplate:
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
        return _value_text(None if value is _MISSING else value)

    text = _LOADED_PLACEHOLDER.sub(filled, template)
    whole = _LOADED_PLACEHOLDER.fullmatch(template.strip())
    if whole is None:
        return ResolvedTemplate(text, text, tuple(missing))
    value = _look_up(whole[1].strip(), context)
    return ResolvedTemplate(text, None if value is _MISSING else value, tuple(missing))


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
    ids = (
        {str(label): node for node, label in reversed(list(labels.items()))}
        if isinstance(labels, Mapping)
        else {}
    )
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


def _value_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
