"""A folder of this machine as an origin of documents. Hidden files and links are passed over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from rag.core.errors import NotFoundError, ProviderError
from rag.core.origins import OriginDocument


class FolderOrigin:
    """All files under ``folder``, by their paths relative to it."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.resolve().name
        self._folder = folder

    def __str__(self) -> str:
        return str(self._folder)

    def listed(self) -> Iterator[OriginDocument]:
        """Yield each file.

        Raises NotFoundError when there is no such folder, ProviderError for a part of it that
        cannot be read: what is not listed counts as deleted.
        """
        if not self._folder.is_dir():
            raise NotFoundError("There is no folder “{path}”.", path=self._folder)
        try:
            for path, size in _files(self._folder):
                yield OriginDocument(path.relative_to(self._folder).as_posix(), size)
        except OSError as error:
            raise ProviderError(
                "“{name}” cannot be read: {reason}.",
                hint="Check its permissions.",
                name=error.filename or self._folder,
                reason=error.strerror or error,
            ) from error

    def opened(self, path: str) -> AbstractContextManager[IO[bytes]]:
        """Open one file; raise OSError."""
        return (self._folder / path).open("rb")


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path)
        elif (size := _size(path)) is not None:
            yield path, size


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() else None
    except FileNotFoundError:
        # It went at this very moment.
        return None
