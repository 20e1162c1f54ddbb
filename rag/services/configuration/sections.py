"""Configuration sections: a folder of YAML files, one for each row that people set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from rag.core.access import Scope

Described = dict[str, dict[str, Any]]


class ConfigItem(BaseModel):
    """The keys of one file: what is not given stays as it is, what is not known is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True, slots=True)
class ConfigSection:
    """A folder of files.

    ``describe`` returns what a Scope may change, by name; ``put`` makes or changes a row by the
    keys that are given, with whether what a file no longer names goes; ``drop`` deletes one.
    A section without ``put`` is written alone, and only when it is asked for. ``permission`` has
    ``{}`` where Django's permissions have add, change or delete; ``order`` sorts within the folder.
    """

    folder: str
    model: type[ConfigItem]
    permission: str
    describe: Callable[[Scope], Described]
    put: Callable[[Scope, str, dict[str, Any], bool], None] | None = None
    drop: Callable[[Scope, str], None] | None = None
    order: Callable[[dict[str, Any]], int] = lambda values: 0


_SECTIONS: list[ConfigSection] = []


def register_section(section: ConfigSection) -> None:
    """Let a section be written and applied, after those that were registered before it."""
    if section not in _SECTIONS:
        _SECTIONS.append(section)


def config_sections() -> list[ConfigSection]:
    """Return all sections in the order in which they are applied."""
    return list(_SECTIONS)
