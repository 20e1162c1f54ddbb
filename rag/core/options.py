"""Plugin options: a dataclass is turned into a JSON schema, validated, and filled from a dict.

Forms, API schemas and the checks of YAML files are all derived from ``schema_of``.
"""

from __future__ import annotations

import dataclasses
import math
import reprlib
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from rag.core.errors import InvalidInputError, UnknownNameError

T = TypeVar("T")
_SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def option(
    default: Any = dataclasses.MISSING,
    *,
    help: str = "",
    is_secret: bool = False,
    setting: str = "",
    choices: Callable[[], Sequence[str]] | None = None,
    **limits: float,
) -> Any:
    """Return a field of an ``Options`` dataclass; without ``default`` it must be given.

    ``help`` is one sentence for people. ``is_secret`` marks the name of a secret, never its value.
    ``setting`` names the installation's setting that is the value where none is given, for kinds
    that settings choose. ``choices`` returns the allowed texts, asked for when the schema is made.
    ``limits`` are ``minimum`` and ``maximum``. Lists and dicts may be defaults.
    """
    metadata = {"help": help, "is_secret": is_secret, "setting": setting, **limits}
    if choices:
        metadata["choices"] = choices
    if isinstance(default, (list, dict)):
        return dataclasses.field(default_factory=lambda: type(default)(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def schema_of(options: type[Any]) -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of an ``Options`` dataclass.

    Understands str, int, float, bool, ``Literal`` of texts, list[str], dict[str, …] and each of
    these ``| None``; any other annotation is a TypeError of the plugin's author.
    """
    try:
        hints = get_type_hints(options)
    except NameError as error:
        raise TypeError(f"an annotation cannot be resolved: {error}") from error
    properties, required = {}, []
    for field in dataclasses.fields(options):
        shape = _shape(hints[field.name])
        shape["description"] = field.metadata.get("help", "")
        for limit in ("minimum", "maximum"):
            if limit in field.metadata:
                shape[limit] = field.metadata[limit]
        if "choices" in field.metadata:
            shape["enum"] = list(field.metadata["choices"]())
        if field.metadata.get("is_secret"):
            shape["x-secret"] = True
        if field.metadata.get("setting"):
            shape["x-setting"] = field.metadata["setting"]
        if field.default is not dataclasses.MISSING:
            shape["default"] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            shape["default"] = field.default_factory()
        else:
            required.append(field.name)
        properties[field.name] = shape
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def find_option_errors(
    schema: Mapping[str, Any], values: Mapping[str, Any], *, of: str
) -> dict[str, InvalidInputError]:
    """Return what is wrong with each value, by the option's name; empty when all may be used.

    ``schema`` is what ``schema_of`` returned; ``of`` names the plugin in the errors.
    """
    properties = schema["properties"]
    faults: dict[str, InvalidInputError] = {
        str(name): UnknownNameError("option", f"{of}.{name}", properties)
        for name in values
        if name not in properties
    }
    for name in schema["required"]:
        if name not in values:
            faults[name] = InvalidInputError("{of} needs the option “{name}”.", of=of, name=name)
    for name, shape in properties.items():
        if name in values and (fault := _fault(of, name, values[name], shape)):
            faults[name] = fault
    return faults


def read_options(options: type[T], values: Mapping[str, Any], *, of: str) -> T:
    """Return ``options`` filled from ``values``; ``of`` names the plugin in errors.

    Raises UnknownNameError for a key nobody knows and InvalidInputError for one that is missing,
    has another type or lies outside its limits, or when ``__post_init__`` refuses the whole.
    """
    # The stubs take a type variable for something that cannot be hashed.
    kind: Any = options
    for fault in find_option_errors(_schema_of(kind), values, of=of).values():
        raise fault
    try:
        return options(**values)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            "The options of {of} do not go together: {reason}.", of=of, reason=error
        ) from error


# Read for every question to an agent, and never changed here.
@lru_cache(maxsize=256)
def _schema_of(options: Any) -> dict[str, Any]:
    return schema_of(options)


def _fault(of: str, name: str, value: Any, shape: Mapping[str, Any]) -> InvalidInputError | None:
    wanted = shape["type"] if isinstance(shape["type"], list) else [shape["type"]]
    if not any(_is_a(value, kind) for kind in wanted):
        return InvalidInputError(
            "The option “{name}” of {of} is {value}.",
            hint="It must be of type {wanted}.",
            of=of,
            name=name,
            value=_shown(value, shape),
            wanted=" or ".join(wanted),
        )
    if "enum" in shape and value not in shape["enum"]:
        known = filter(None, shape["enum"])
        return UnknownNameError("option value", f"{of}.{name}: {value}", known)
    inner = shape.get("items") or shape.get("additionalProperties")
    parts = value.values() if isinstance(value, Mapping) else value
    if inner and value is not None and not all(_is_a(part, inner["type"]) for part in parts):
        return InvalidInputError(
            "The option “{name}” of {of} holds something else than {wanted}.",
            of=of,
            name=name,
            wanted=inner["type"],
        )
    low, high = shape.get("minimum", -math.inf), shape.get("maximum", math.inf)
    # JSON spells whole numbers that no float holds.
    is_number = isinstance(value, (int, float))
    if is_number and not (low <= value <= high and abs(value) <= sys.float_info.max):
        return InvalidInputError(
            "The option “{name}” of {of} is {value}.",
            hint="Allowed: {low} to {high}.",
            of=of,
            name=name,
            value=value,
            low=shape.get("minimum", "…"),
            high=shape.get("maximum", "…"),
        )
    return None


def _shown(value: Any, shape: Mapping[str, Any]) -> str:
    # What was put where a secret's name belongs may be the secret.
    return "…" if "x-secret" in shape else reprlib.repr(value)


def _is_a(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "object":
        return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
    kinds: dict[str, Any] = {
        "string": str,
        "integer": int,
        "number": (int, float),
        "array": list,
        "null": type(None),
    }
    return kind in kinds and isinstance(value, kinds[kind])


def _shape(hint: Any) -> dict[str, Any]:
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal and all(isinstance(name, str) for name in inner):
        return {"type": "string", "enum": list(inner)}
    if origin is list and inner[0] in _SCALARS:
        return {"type": "array", "items": {"type": _SCALARS[inner[0]]}}
    if origin is dict and inner[0] is str:
        of = {"additionalProperties": {"type": _SCALARS[inner[1]]}} if inner[1] in _SCALARS else {}
        return {"type": "object", **of}
    if origin in (Union, types.UnionType) and len(inner) == 2 and type(None) in inner:
        (other,) = (one for one in inner if one is not type(None))
        shape = _shape(other)
        names = {"enum": [*shape["enum"], None]} if "enum" in shape else {}
        return {**shape, **names, "type": [shape["type"], "null"]}
    raise TypeError(f"an option cannot have the type {hint}")
