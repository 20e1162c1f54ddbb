"""Apply and export of a configuration: one transaction, and a diff of what it changed."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext

from rag.conf import conf
from rag.core.access import Scope
from rag.core.errors import ForbiddenError, InvalidInputError, RAGError
from rag.services.configuration.files import (
    ConfigFile,
    read_configuration,
    to_yaml,
    write_configuration,
)
from rag.services.configuration.sections import ConfigSection, Described, config_sections

_MIN_SECRET = 6


@dataclass(frozen=True, slots=True)
class Applied:
    """What was changed, as a unified diff of the files that say it; empty for nothing."""

    diff: str
    n_changed: int


def apply_configuration(
    *,
    folder: Path,
    scope: Scope,
    may: Callable[[str], bool] = lambda permission: True,
    is_dry: bool = False,
    prunes: bool = False,
) -> Applied:
    """Make the rows what the files say, all or none, and tell what changed.

    What a file does not say stays; rows without a file stay too, unless ``prunes``, which deletes
    those of the folders that are there. A dry run does the same and takes it back. ``may`` says
    whether a permission of Django's is there.
    """
    sections = [one for one in config_sections() if one.put is not None]
    files = read_configuration(folder, config_sections())
    with transaction.atomic():
        before = {one.folder: one.describe(scope) for one in sections}
        for file in files:
            _put(file, scope, before[file.section.folder], may, prunes)
        if prunes:
            for section in reversed(sections):
                _prune(section, files, folder, scope, before[section.folder], may)
        after = {one.folder: one.describe(scope) for one in sections}
        transaction.set_rollback(is_dry)
    old, new = _texts(before), _texts(after)
    changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    return Applied("".join(_diff(name, old, new) for name in changed), len(changed))


def _put(
    file: ConfigFile,
    scope: Scope,
    before: Described,
    may: Callable[[str], bool],
    prunes: bool,
) -> None:
    put, known = file.section.put, before.get(file.name, {})
    assert put is not None
    if all(known.get(key) == value for key, value in file.values.items()) and known:
        return
    permission = file.section.permission.format("change" if known else "add")
    try:
        _require(may, permission)
        put(scope, file.name, file.values, prunes)
    except RAGError as error:
        raise file.mistake(error.localized(gettext)) from error
    except ValidationError as error:
        raise file.mistake(" ".join(error.messages)) from error


def _prune(
    section: ConfigSection,
    files: Sequence[ConfigFile],
    folder: Path,
    scope: Scope,
    before: Described,
    may: Callable[[str], bool],
) -> None:
    named = {file.name for file in files if file.section is section}
    if section.drop is None or not (folder / section.folder).is_dir():
        return
    for name in sorted(before.keys() - named):
        _require(may, section.permission.format("delete"))
        section.drop(scope, name)


def _require(may: Callable[[str], bool], permission: str) -> None:
    if not may(permission):
        raise ForbiddenError(
            "Your account lacks the permission {permission}.",
            hint="Ask an administrator for it.",
            permission=permission.partition(".")[2],
        )


def export_configuration(*, folder: Path, scope: Scope, has_records: bool = False) -> int:
    """Write what ``scope`` may change into a folder and return the number of files.

    ``has_records`` writes conversations too. Raises InvalidInputError where a text holds the value
    of a secret: nothing is written then.
    """
    sections = [one for one in config_sections() if has_records or one.put is not None]
    texts = _texts({one.folder: one.describe(scope) for one in sections})
    secrets = [value for value in conf().secret_values if len(value) >= _MIN_SECRET]
    for name, text in texts.items():
        if any(secret in text for secret in secrets):
            raise InvalidInputError(
                "“{name}” would hold the value of a secret.",
                hint="Name the secret of RAG_SECRETS there instead.",
                name=name,
            )
    write_configuration(folder, texts, [one.folder for one in sections])
    return len(texts)


def _texts(described: Mapping[str, Described]) -> dict[str, str]:
    return {
        f"{folder}/{name}.yaml": to_yaml(values)
        for folder, rows in described.items()
        for name, values in rows.items()
    }


def _diff(name: str, old: Mapping[str, str], new: Mapping[str, str]) -> str:
    lines = difflib.unified_diff(
        old.get(name, "").splitlines(keepends=True),
        new.get(name, "").splitlines(keepends=True),
        name if name in old else "/dev/null",
        name if name in new else "/dev/null",
    )
    return "".join(lines)
