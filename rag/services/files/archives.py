"""Upload items from paths: files, folders, globs and zip bundles, opened one at a time.

A bundle that would unpack to too much (a zip bomb) is refused before anything is unpacked.
"""

from __future__ import annotations

import glob
import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, cast

from rag.conf import conf
from rag.core.errors import DocumentError, InvalidInputError
from rag.stages.detect.entry_names import entry_names
from rag.stages.detect.zip_documents import is_bundle_name, program_of_zip

MAX_MEMBERS, MAX_RATIO, MAX_TOTAL = 5_000, 100, 2 * 1024**3
# A zip is also the wrapping of these kinds; those are documents, not bundles.
_DOCUMENT_ZIPS = ("[Content_Types].xml", "mimetype")
_MEGABYTE = 1024**2
_DRIVE = re.compile(r"^(?:[A-Za-z]:)+")
# What a damaged member raises, by the way it is packed and where the damage is.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
)


@dataclass(frozen=True, slots=True)
class UploadItem:
    """One document to take in; ``open`` and reading raise DocumentError."""

    name: str
    size: int
    open: Callable[[], IO[bytes]]


def zip_items(*, path: Path, name: str) -> Iterator[UploadItem] | None:
    """Return the documents in a zip bundle, or None when the file is no bundle.

    Raises DocumentError for one that would unpack to too much.
    """
    with path.open("rb") as stream:
        if stream.read(2) != b"PK":
            return None
    try:
        with zipfile.ZipFile(path) as bundle:
            members = [member for member in bundle.infolist() if not member.is_dir()]
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return None
    entries = {member.filename for member in members}
    if not entries.isdisjoint(_DOCUMENT_ZIPS) or program_of_zip(entries, name):
        return None
    if not is_bundle_name(name):
        return None
    _refuse_bomb(members, name)
    return _items(path, members)


def _refuse_bomb(members: Sequence[zipfile.ZipInfo], name: str) -> None:
    total = sum(member.file_size for member in members)
    packed = sum(member.compress_size for member in members)
    if len(members) > MAX_MEMBERS or total > MAX_TOTAL or total > MAX_RATIO * max(packed, 1024):
        raise DocumentError(
            "“{name}” would unpack to {n} files and {mb} MB.",
            hint="Unpack it yourself and upload what you need.",
            name=name,
            n=len(members),
            mb=total // _MEGABYTE,
        )


def _items(path: Path, members: Sequence[zipfile.ZipInfo]) -> Iterator[UploadItem]:
    for member, written in zip(members, entry_names(members), strict=True):
        # Folders tell files of one name apart; nothing of a path leads anywhere.
        inside = _DRIVE.sub("", written.replace("\\", "/"))
        parts = [part for part in PurePosixPath(inside).parts if part not in (".", "..", "/", "//")]
        if parts and not any(part.startswith(".") or part == "__MACOSX" for part in parts):
            name = "/".join(parts)
            opened = partial(_Member, path, member, name)
            yield UploadItem(name, member.file_size, cast(Callable[[], IO[bytes]], opened))


class _Member(io.RawIOBase):
    """What is packed in one member; what is wrong with it is told as a DocumentError."""

    def __init__(self, path: Path, member: zipfile.ZipInfo, name: str) -> None:
        self._name = name
        if member.flag_bits & 0x1:
            raise DocumentError(
                "“{name}” in the zip needs a password.",
                hint="Unpack it and upload the file.",
                name=name,
            )
        if member.file_size > conf().max_file_bytes:
            raise DocumentError(
                "“{name}” in the zip is larger than {limit} MB.",
                hint="Split it and upload the parts.",
                name=name,
                limit=conf().max_file_bytes // _MEGABYTE,
            )
        try:
            with zipfile.ZipFile(path) as bundle:
                self._stream = bundle.open(member)
        except _DAMAGE as error:
            raise self._damaged(error) from error

    def read(self, size: int | None = -1) -> bytes:
        try:
            return self._stream.read(-1 if size is None else size)
        except _DAMAGE as error:
            raise self._damaged(error) from error

    def close(self) -> None:
        if not self.closed and hasattr(self, "_stream"):
            self._stream.close()
        super().close()

    def _damaged(self, error: Exception) -> DocumentError:
        return DocumentError(
            "“{name}” in the zip is damaged: {reason}.",
            hint="Pack it again.",
            name=self._name,
            reason=error,
        )


def collect_items(*, paths: Sequence[str]) -> Iterator[UploadItem]:
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


def _below(path: Path) -> Iterator[UploadItem]:
    if path.is_file():
        yield from _file(path)
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            inside = Path(folder) / name
            # A pipe or device would be waited for without end.
            if not name.startswith(".") and inside.is_file():
                yield from _file(inside)


def _file(path: Path) -> Iterator[UploadItem]:
    try:
        size = path.stat().st_size
        items = zip_items(path=path, name=path.name)
    except DocumentError as error:
        yield UploadItem(path.name, 0, partial(_refuse, error))
    except OSError as error:
        yield UploadItem(path.name, 0, partial(_refuse, _unreadable(path, error)))
    else:
        opened = partial(_open, path)
        yield from items if items is not None else [UploadItem(path.name, size, opened)]


def _open(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise _unreadable(path, error) from error


def _refuse(error: DocumentError) -> IO[bytes]:
    raise error


def _unreadable(path: Path, error: OSError) -> DocumentError:
    return DocumentError(
        "“{name}” cannot be read: {reason}.",
        hint="Check its permissions.",
        name=path.name,
        reason=error.strerror or error,
    )
