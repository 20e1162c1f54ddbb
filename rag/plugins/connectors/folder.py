"""Connector ``folder``: a folder of this machine. Hidden files and links are passed over."""

from __future__ import annotations

import grp
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from django.utils.translation import gettext_noop

from rag.core.connectors import ConnectorContext, OriginDocument
from rag.core.errors import InvalidInputError, NotFoundError, ProviderError
from rag.core.options import option
from rag.core.plugins import register
from rag.plugins.connectors.links import check_link_base, link_to


@register("connector")
class FolderConnector:
    """All files under a folder, with all folders in it, by their paths relative to it."""

    name = "folder"
    label = gettext_noop("Folder")

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """Which folder, and how its files are opened and restricted."""

        folder: str = option(help="Path of a folder on the server, as an administrator allows it.")
        link_base: str = option(
            "", help="Web address under which people open the files; their paths are added to it."
        )
        uses_permissions: bool = option(
            False,
            help="Restrict a file that not everybody may read to the group of its name here.",
        )

    def __init__(self, options: Options) -> None:
        if not options.folder.strip():
            raise InvalidInputError(
                "No folder was named.", hint="Name a folder or s3://bucket/prefix."
            )
        check_link_base(options.link_base)
        self._options = options
        self._folder = Path(options.folder)
        self.origin_name = self._folder.resolve().name

    def __str__(self) -> str:
        return self._options.folder

    def list(self, context: ConnectorContext) -> Iterator[OriginDocument]:
        """Yield each file.

        Raises NotFoundError when there is no such folder, ProviderError for a part of it that
        cannot be read: what is not listed counts as deleted.
        """
        folder = context.folder(self._options.folder)
        if not folder.is_dir():
            raise NotFoundError("There is no folder “{path}”.", path=folder)
        try:
            for path, size in _files(folder):
                place = path.relative_to(folder).as_posix()
                yield OriginDocument(place, size, url=link_to(self._options.link_base, place))
        except OSError as error:
            raise ProviderError(
                "“{name}” cannot be read: {reason}.",
                hint="Check its permissions.",
                name=error.filename or folder,
                reason=error.strerror or error,
            ) from error

    def since(self, context: ConnectorContext) -> None:
        """Return None: a folder tells what is there, not what changed."""

    def fetch(
        self, document: OriginDocument, context: ConnectorContext
    ) -> AbstractContextManager[IO[bytes]]:
        """Open one file; raise OSError."""
        return (self._folder / document.path).open("rb")

    def permissions(self, document: OriginDocument) -> Sequence[str] | None:
        """Return the file's group where only its group may read it."""
        if not self._options.uses_permissions:
            return None
        facts = (self._folder / document.path).stat()
        if facts.st_mode & stat.S_IROTH:
            return None
        try:
            return [grp.getgrgid(facts.st_gid).gr_name]
        except KeyError:
            return [str(facts.st_gid)]


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
