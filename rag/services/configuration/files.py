"""Configuration files: YAML read with places and written so that it is read in a diff."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from rag.core.errors import InvalidInputError, NotFoundError, RAGError
from rag.services.configuration.sections import ConfigSection
from rag.stages.text.yaml_positions import LocatedYaml, parse_yaml


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file as it was read: of which section and row, where it is, and the keys that it gives."""

    section: ConfigSection
    name: str
    path: str
    located: LocatedYaml
    values: dict[str, Any]

    def mistake(self, reason: str) -> InvalidInputError:
        """Return the error of the file as a whole."""
        return self.located.mistake(self.path, (), reason)


def read_configuration(folder: Path, sections: Sequence[ConfigSection]) -> list[ConfigFile]:
    """Return the files of a folder in the order of ``sections``; others have no place in it.

    Raises NotFoundError for no folder, InvalidInputError with file, line and column for what is no
    YAML, unknown or of another type.
    """
    if not folder.is_dir():
        raise NotFoundError("There is no folder “{path}”.", path=folder)
    known = {section.folder: section for section in sections}
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name not in known and not path.name.startswith("."):
            raise InvalidInputError(
                "“{name}” is no part of a configuration.",
                hint="Known: {known}.",
                name=path.name,
                known=", ".join(known),
            )
    found: list[ConfigFile] = []
    for section in sections:
        if section.put is not None:
            paths = sorted((folder / section.folder).glob("*.yaml"))
            found += sorted(
                (_read(section, path) for path in paths), key=lambda one: section.order(one.values)
            )
    return found


def _read(section: ConfigSection, path: Path) -> ConfigFile:
    name = f"{section.folder}/{path.name}"
    try:
        located = parse_yaml(path.read_text(encoding="utf-8"), name=name)
    except UnicodeDecodeError as error:
        raise InvalidInputError("“{name}” is no text in UTF-8.", name=name) from error
    if not isinstance(located.data, dict):
        raise located.mistake(name, (), "it holds no keys")
    try:
        item = section.model.model_validate(located.data)
    except ValidationError as error:
        raise _located(error, section, located, name) from None
    return ConfigFile(section, path.stem, name, located, item.model_dump(exclude_unset=True))


def _located(
    error: ValidationError, section: ConfigSection, located: LocatedYaml, name: str
) -> RAGError:
    faults = error.errors(include_url=False)
    first = next((one for one in faults if one["type"] == "extra_forbidden"), faults[0])
    reason = first["msg"]
    if first["type"] == "extra_forbidden":
        reason = "there is no such key"
        if len(first["loc"]) == 1:
            reason += f"; known: {', '.join(sorted(section.model.model_fields))}"
    return located.mistake(name, first["loc"], f"{'.'.join(map(str, first['loc']))}: {reason}")


class _Dumper(yaml.SafeDumper):
    pass


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(values: Mapping[str, Any]) -> str:
    """Return a file's text; texts of several lines as they are read."""
    text: str = yaml.dump(
        dict(values), Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=100
    )
    return text


def write_configuration(folder: Path, texts: Mapping[str, str], sections: Iterable[str]) -> None:
    """Write the files; those of the same folders that are none of them any more go."""
    for section in sections:
        (folder / section).mkdir(parents=True, exist_ok=True)
        for path in (folder / section).glob("*.yaml"):
            if f"{section}/{path.name}" not in texts:
                path.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
