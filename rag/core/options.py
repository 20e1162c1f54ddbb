"""What a plugin may be told. In: a dataclass of options. Out: its JSON schema, values from a dict.

Forms, API schemas and the checks of YAML files are all derived from ``schema_of``.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from rag.core.errors import InvalidInputError, UnknownNameError

T = TypeVar("T")
_SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def option(
    default: Any = dataclasses.MISSING, *, help: str = "", is_secret: bool = False, **limits: float
) -> Any:
    """Return a field of an ``Options`` dataclass; without ``default`` it must be given.

    ``help`` is one sentence for people. ``is_secret`` marks the name of a secret, never its value.
    ``limits`` are ``minimum`` and ``maximum``. Lists and dicts may be defaults.
    """
    metadata = {"help": help, "is_secret": is_secret, **limits}
    if isinstance(default, (list, dict)):
        return dataclasses.field(default_factory=lambda: type(default)(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def schema_of(options: type[Any]) -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of an ``Options`` dataclass.

    Understands str, int, float, bool, ``Literal`` of texts, list[str], dict[str, …] and each of
    these ``| None``; any other annotation is a TypeError of the plugin's author.
    """
    hints = get_type_hints(options)
    properties, required = {}, []
    for field in dataclasses.fields(options):
        shape = _shape(hints[field.name])
        shape["description"] = field.metadata.get("help", "")
        for limit in ("minimum", "maximum"):
            if limit in field.metadata:
                shape[limit] = field.metadata[limit]
        if field.metadata.get("is_secret"):
            shape["x-secret"] = True
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


def read_options(options: type[T], values: Mapping[str, Any], *, of: str) -> T:
    """Return ``options`` filled from ``values``; ``of`` names the plugin in errors.

    Raises UnknownNameError for a key nobody knows and InvalidInputError for one that is missing,
    has another type or lies outside its limits.
    """
    properties = schema_of(options)["properties"]
    for name in values:
        if name not in properties:
            raise UnknownNameError(f"option of {of}", str(name), properties)
    for name in schema_of(options)["required"]:
        if name not in values:
            raise InvalidInputError("{of} needs the option “{name}”.", of=of, name=name)
    for name, value in values.items():
        _check(of, name, value, properties[name])
    return options(**values)


def _check(of: str, name: str, value: Any, shape: Mapping[str, Any]) -> None:
    wanted = shape["type"] if isinstance(shape["type"], list) else [shape["type"]]
    if not any(_is_a(value, kind) for kind in wanted):
        raise InvalidInputError(
            "The option “{name}” of {of} is {value}.", hint="It must be of type {wanted}.",
            of=of, name=name, value=repr(value), wanted=" or ".join(wanted),
        )  # fmt: skip
    if value is not None and "enum" in shape and value not in shape["enum"]:
        raise UnknownNameError(f"{name} of {of}", str(value), map(str, shape["enum"]))
    if isinstance(value, list) and not all(_is_a(one, shape["items"]["type"]) for one in value):
        raise InvalidInputError(
            "The option “{name}” of {of} is a list of something else than {wanted}.",
            of=of, name=name, wanted=shape["items"]["type"],
        )  # fmt: skip
    low, high = shape.get("minimum"), shape.get("maximum")
    if isinstance(value, (int, float)) and (
        (low is not None and value < low) or (high is not None and value > high)
    ):
        raise InvalidInputError(
            "The option “{name}” of {of} is {value}.", hint="Allowed: {low} to {high}.",
            of=of, name=name, value=value, low="…" if low is None else low,
            high="…" if high is None else high,
        )  # fmt: skip


def _is_a(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    kinds: dict[str, Any] = {
        "string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list,
        "object": Mapping, "null": type(None),
    }  # fmt: skip
    return isinstance(value, kinds[kind])


def _shape(hint: Any) -> dict[str, Any]:
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal and all(isinstance(name, str) for name in inner):
        return {"type": "string", "enum": list(inner)}
    if origin is list and inner[0] in _SCALARS:
        return {"type": "array", "items": {"type": _SCALARS[inner[0]]}}
    if origin is dict:
        return {"type": "object"}
    if origin in (Union, types.UnionType) and len(inner) == 2 and type(None) in inner:
        (other,) = (one for one in inner if one is not type(None))
        shape = _shape(other)
        return {**shape, "type": [shape["type"], "null"]}
    raise TypeError(f"an option cannot have the type {hint}")
