"""YAML loader that keeps line and column of every part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from rag.core.errors import InvalidInputError

MAX_CHARACTERS = 500_000
MAX_DEPTH = 40
# libyaml, ten times as fast, is in the wheels; a PyYAML built without it reads the same.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN_TAGS = frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})
_Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class YamlPosition:
    """A position in a file, counted from 1 as editors do."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class LocatedYaml:
    """Data with the places of its parts; a key such as ``("nodes", 0, "name")`` leads to one."""

    data: Any
    places: dict[_Key, YamlPosition] = field(default_factory=dict)

    def place(self, key: Sequence[str | int]) -> YamlPosition:
        """Return where ``key`` stands, or the nearest part around it that is there."""
        for end in range(len(key), -1, -1):
            found = self.places.get(tuple(key[:end]))
            if found:
                return found
        return YamlPosition(1, 1)

    def mistake(self, name: str, key: Sequence[str | int], reason: str) -> InvalidInputError:
        """Return the error of what stands at ``key`` in the file ``name``."""
        return _placed(name, self.place(key), reason)


def parse_yaml(text: str, *, name: str = "flow.yaml") -> LocatedYaml:
    """Return the data of a YAML text; raise InvalidInputError naming ``name``, line and column.

    Only plain data: no tags of Python, no aliases (a small text could stand for a huge one), no
    key twice.
    """
    if len(text) > MAX_CHARACTERS:
        raise InvalidInputError(
            "“{name}” has {n} characters.",
            hint="At most {limit}.",
            name=name,
            n=len(text),
            limit=MAX_CHARACTERS,
        )
    try:
        _check_events(text, name)
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        raise _refused(name, _mark(error, text), error.problem) from error
    except yaml.YAMLError as error:
        raise _refused(name, None, str(error).splitlines()[0]) from error
    except UnicodeEncodeError as error:
        raise _refused(name, None, "it holds half a character") from error
    located = LocatedYaml(None, {})
    reader = _Reader(name, located.places)
    return LocatedYaml(reader.read(root, ()) if root else None, located.places)


def _check_events(text: str, name: str) -> None:
    """Refuse aliases and depth before anything is built: both cost far more than they weigh."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise _refused(name, event.start_mark, "an alias (*) is not allowed")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _refused(name, event.start_mark, "it is nested too deeply")


class _Reader:
    def __init__(self, name: str, places: dict[_Key, YamlPosition]) -> None:
        self.name, self.places = name, places
        self.scalars = yaml.constructor.SafeConstructor()

    def read(self, node: yaml.Node, key: _Key) -> Any:
        self.places.setdefault(
            key, YamlPosition(node.start_mark.line + 1, node.start_mark.column + 1)
        )
        if isinstance(node, yaml.CollectionNode) and node.tag not in _PLAIN_TAGS:
            raise _refused(self.name, node.start_mark, f"the tag “{node.tag}” is not allowed")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, key)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(part, (*key, number)) for number, part in enumerate(node.value)]
        return self._scalar(node)

    def _mapping(self, node: yaml.MappingNode, key: _Key) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name_node, value in node.value:
            if not isinstance(name_node, yaml.ScalarNode):
                raise _refused(self.name, name_node.start_mark, "a key must be a text")
            # A key is its text as written, whatever YAML would make of "on" or "1".
            name = name_node.value
            if name in found:
                raise _refused(self.name, name_node.start_mark, f"the key “{name}” is there twice")
            mark = name_node.start_mark
            self.places[(*key, name)] = YamlPosition(mark.line + 1, mark.column + 1)
            found[name] = self.read(value, (*key, name))
        return found

    def _scalar(self, node: yaml.Node) -> Any:
        try:
            value = self.scalars.construct_object(node)
        except yaml.MarkedYAMLError as error:
            raise _refused(self.name, node.start_mark, error.problem) from error
        except ValueError as error:
            raise _refused(self.name, node.start_mark, str(error)) from error
        # Dates and bytes are texts to a flow, whose state is JSON.
        return value if isinstance(value, (str, int, float, bool, type(None))) else node.value


def _mark(error: yaml.MarkedYAMLError, text: str) -> Any:
    """Return where the mistake is: of what is not closed, where it was opened, or the last line."""
    lines = text.splitlines() or [""]
    marks = [mark for mark in (error.problem_mark, error.context_mark) if mark is not None]
    inside = [mark for mark in marks if mark.line < len(lines)]
    if inside or not marks:
        return next(iter(inside), None)
    return yaml.Mark(marks[0].name, 0, len(lines) - 1, len(lines[-1]), None, 0)


def _refused(name: str, mark: Any, reason: str | None) -> InvalidInputError:
    if mark is None:
        return InvalidInputError(
            "“{name}” is no YAML: {reason}.", name=name, reason=reason or "it cannot be read"
        )
    place = YamlPosition(mark.line + 1, mark.column + 1)
    return _placed(name, place, reason or "it cannot be read")


def _placed(name: str, place: YamlPosition, reason: str) -> InvalidInputError:
    return InvalidInputError(
        "“{name}”, line {line}, column {column}: {reason}.",
        name=name,
        line=place.line,
        column=place.column,
        reason=reason.rstrip("."),
    )
