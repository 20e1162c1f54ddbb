"""Dataclass JSON codec: frozen dataclasses to bytes and back by their declared types.

Only what is declared by the type is made again, so that no stored text can name a class.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
_Reader = Callable[[Any], Any]
_SCALARS = frozenset({str, int, float, bool, type(None)})


def to_json(value: Any) -> bytes:
    """Return a dataclass of dataclasses, tuples, mappings and plain values; defaults are left out.

    Keys of mappings become texts; ``from_json`` knows which were numbers.
    """
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


def from_json(kind: type[T], raw: bytes) -> T | None:
    """Return the value of type ``kind`` that ``to_json`` was given, or None when it is none.

    A type that holds what JSON cannot give back is a TypeError of its author.
    """
    # The stubs take a type variable for something that cannot be hashed.
    hint: Any = kind
    read = _reader(hint)
    try:
        made: T = read(json.loads(raw.decode("utf-8", "surrogatepass")))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return made


def _plain(value: Any) -> Any:
    kind: Any = type(value)
    if kind in _SCALARS:
        return value
    if dataclasses.is_dataclass(value):
        return {
            name: _plain(found)
            for name, default in _defaults(kind)
            if (found := getattr(value, name)) is not default
        }
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


@cache
def _defaults(kind: Any) -> list[tuple[str, Any]]:
    return [(field.name, field.default) for field in dataclasses.fields(kind)]


@cache
def _reader(hint: Any) -> _Reader:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        hints = get_type_hints(hint)
        readers = {field.name: _reader(hints[field.name]) for field in dataclasses.fields(hint)}
        return lambda raw: hint(**{name: readers[name](one) for name, one in raw.items()})
    origin, inner = get_origin(hint), get_args(hint)
    if origin is tuple and inner[1:] == (...,):
        read = _reader(inner[0])
        return lambda raw: tuple(read(one) for one in raw)
    if origin in (dict, Mapping):
        read_key, read = (int if inner[0] is int else str), _reader(inner[1])
        return lambda raw: {read_key(key): read(one) for key, one in raw.items()}
    if origin in (Union, types.UnionType):
        read = _reader(next(one for one in inner if one is not type(None)))
        return lambda raw: None if raw is None else read(raw)
    if hint not in (Any, str, int, float, bool):
        raise TypeError(f"{hint} would not come back from JSON as it was")
    return _as_is


def _as_is(raw: Any) -> Any:
    return raw
