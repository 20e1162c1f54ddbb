"""Paths to documents. In: files, folders, globs and zips. Out: names and openable contents."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from rag.core.errors import DocumentError, InvalidInputError
from rag.services.bundle import Item, zip_items


def collect_items(*, paths: Sequence[str]) -> Iterator[Item]:
    """Return every document below ``paths``, folders walked in order, zips opened.

    Hidden and special files are passed over. What cannot be read, such as a zip that would unpack
    to too much, is an item that says so when it is opened. Raises InvalidInputError for a path
    that matches nothing, before anything is read.
    """
    found = [match for pattern in paths for match in _matches(pattern)]
    return (item for path in dict.fromkeys(found) for item in _below(path))


def _matches(pattern: str) -> list[Path]:
    try:
        matches = [Path(pattern)]
        if not matches[0].exists():
            # Path.glob takes no absolute pattern.
            matches = [Path(name) for name in sorted(glob.glob(pattern, recursive=True))]  # noqa: PTH207
    except (OSError, ValueError):
        matches = []
    if not matches:
        raise InvalidInputError("“{path}” does not exist.", hint="Check the path.", path=pattern)
    return matches


def _below(path: Path) -> Iterator[Item]:
    if path.is_file():
        yield from _file(path)
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            inside = Path(folder) / name
            # A pipe or device would be waited for without end.
            if not name.startswith(".") and inside.is_file():
                yield from _file(inside)


def _file(path: Path) -> Iterator[Item]:
    try:
        size = path.stat().st_size
        items = zip_items(path=path, name=path.name)
    except DocumentError as error:
        yield Item(path.name, 0, _refusal(error))
    except OSError as error:
        yield Item(path.name, 0, _refusal(_unreadable(path, error)))
    else:
        yield from items if items is not None else [Item(path.name, size, _opener(path))]


def _opener(path: Path) -> Callable[[], IO[bytes]]:
    def opened() -> IO[bytes]:
        try:
            return path.open("rb")
        except OSError as error:
            raise _unreadable(path, error) from error

    return opened


def _refusal(error: DocumentError) -> Callable[[], IO[bytes]]:
    def refuse() -> IO[bytes]:
        raise error

    return refuse


def _unreadable(path: Path, error: OSError) -> DocumentError:
    return DocumentError(
        "“{name}” cannot be read: {reason}.", hint="Check its permissions.",
        name=path.name, reason=error.strerror or error,
    )  # fmt: skip
