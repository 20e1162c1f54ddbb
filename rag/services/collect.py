"""Paths to documents. In: files, folders, globs and zips. Out: names and openable contents."""

from __future__ import annotations

import glob
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from rag.conf import conf
from rag.core.errors import DocumentError, InvalidInputError

MAX_MEMBERS = 5_000
MAX_RATIO = 100
MAX_TOTAL = 2 * 1024**3
# A zip with one of these is a document, not a bundle.
_DOCUMENT_ZIPS = ("[Content_Types].xml", "mimetype")


@dataclass(frozen=True, slots=True)
class Item:
    """One document to take in."""

    name: str
    size: int
    open: Callable[[], IO[bytes]]


def collect_items(*, paths: Sequence[str]) -> Iterator[Item]:
    """Yield every document below ``paths``, folders walked in order, zips opened.

    Hidden files are passed over. Raises InvalidInputError where nothing matches, DocumentError for
    a zip that would unpack to too much.
    """
    for pattern in paths:
        path = Path(pattern)
        found = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207  may be absolute
        matches = [path] if path.exists() else [Path(name) for name in found]
        if not matches:
            raise InvalidInputError(
                "“{path}” does not exist.", hint="Check the path.", path=pattern
            )
        for match in matches:
            yield from _below(match)


def zip_items(*, path: Path, name: str) -> Iterator[Item] | None:
    """Return the documents in a zip bundle, or None when the file is no bundle."""
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as bundle:
        members = [member for member in bundle.infolist() if not member.is_dir()]
    if any(member.filename in _DOCUMENT_ZIPS for member in members):
        return None
    _refuse_bomb(members, name)
    return _members(path, members)


def _below(path: Path) -> Iterator[Item]:
    if not path.is_dir():
        items = zip_items(path=path, name=path.name)
        yield from items if items is not None else [_plain(path)]
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield from _below(Path(folder) / name)


def _plain(path: Path) -> Item:
    return Item(path.name, path.stat().st_size, lambda: path.open("rb"))


def _refuse_bomb(members: Sequence[zipfile.ZipInfo], name: str) -> None:
    total = sum(member.file_size for member in members)
    packed = sum(member.compress_size for member in members)
    if len(members) > MAX_MEMBERS or total > MAX_TOTAL or total > MAX_RATIO * max(packed, 1024):
        raise DocumentError(
            "“{name}” would unpack to {n} files and {mb} MB.",
            hint="Unpack it yourself and upload what you need.",
            name=name, n=len(members), mb=total // 1024**2,
        )  # fmt: skip


def _members(path: Path, members: Sequence[zipfile.ZipInfo]) -> Iterator[Item]:
    for member in members:
        name = Path(_member_name(member)).name
        is_hidden = not name or name.startswith(".") or "__MACOSX" in member.filename
        if not is_hidden:
            yield Item(name, member.file_size, partial(_open, path, member))


def _open(path: Path, member: zipfile.ZipInfo) -> IO[bytes]:
    if member.flag_bits & 0x1:
        raise DocumentError(
            "“{name}” in the zip needs a password.", hint="Unpack it and upload the file.",
            name=member.filename,
        )  # fmt: skip
    if member.file_size > conf().max_file_bytes:
        raise DocumentError(
            "“{name}” in the zip is larger than {limit} MB.", hint="Split it and upload the parts.",
            name=member.filename, limit=conf().max_file_bytes // 1024**2,
        )  # fmt: skip
    return zipfile.ZipFile(path).open(member)


def _member_name(member: zipfile.ZipInfo) -> str:
    """Return the name; old Chinese tools write GBK without saying so."""
    if member.flag_bits & 0x800:
        return member.filename
    for encoding in ("utf-8", "gb18030"):
        with suppress(UnicodeError):
            return member.filename.encode("cp437").decode(encoding)
    return member.filename
