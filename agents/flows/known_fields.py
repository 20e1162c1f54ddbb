"""Which fields a place in a YAML file may have. In: a model, a path into it. Out: their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel


def known_fields(model: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    """Return the names as the file writes them, empty where the path leads to no one model."""
    here: list[type[BaseModel]] = [model]
    for step in path:
        if isinstance(step, str):
            annotations = [
                one.annotation
                for place in here
                for name, one in place.model_fields.items()
                if step in (name, one.alias)
            ]
            # A step may name a member of a union instead of a field.
            here = [one for each in annotations for one in _models(each)] or here
    if len(here) != 1:
        return []
    return [one.alias or name for name, one in here[0].model_fields.items()]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
