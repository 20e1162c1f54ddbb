"""Index folder: index files that users bring along, loaded once and confined to one folder.

Sources are configured by more people than may read this machine's files: only what the
administrator put (or linked) into ``indexes`` in the folder of the installation can be named.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Generic, TypeVar

from django.conf import settings

from rag.core.deadline import Deadline
from rag.core.errors import ConfigurationError, InvalidInputError

T = TypeVar("T")
FOLDER = "indexes"


def index_path(name: str) -> Path:
    """Return where ``name`` is; raise InvalidInputError for a way out of the folder.

    Raises ConfigurationError when nothing is there.
    """
    wanted = PurePosixPath(name)
    if not name.strip() or "\0" in name or wanted.is_absolute() or ".." in wanted.parts:
        raise InvalidInputError(
            "“{name}” is no path within the folder {folder}.",
            hint="Give the path from there, such as {example}.",
            name=name,
            folder=FOLDER,
            example="manuals/index.faiss",
        )
    path = Path(settings.VAR_DIR) / FOLDER / wanted
    if not path.exists():
        raise ConfigurationError(
            "There is no “{name}” in the folder {folder}.",
            hint="Copy or link it to {place}.",
            name=name,
            folder=FOLDER,
            place=f"CITABLE_VAR/{FOLDER}",
        )
    return path


class FileCache(Generic[T]):
    """What ``load`` made of the last few files; a file that was changed is loaded anew."""

    def __init__(self, load: Callable[[Path, Deadline], T], size: int = 4) -> None:
        self._load, self._size = load, size
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[Path, int, int], T] = OrderedDict()

    def get(self, path: Path, *, deadline: Deadline) -> T:
        """Return the loaded file; who waits for another's loading waits until the deadline."""
        if not self._lock.acquire(timeout=deadline.remaining_s):
            deadline.check()
        try:
            deadline.check()
            stat = path.stat()
            key = (path, stat.st_mtime_ns, stat.st_size)
            if key not in self._found:
                # First out with the old one: two of a large index may not fit.
                for other in [one for one in self._found if one[0] == path]:
                    del self._found[other]
                self._found[key] = self._load(path, deadline)
            self._found.move_to_end(key)
            while len(self._found) > self._size:
                self._found.popitem(last=False)
            return self._found[key]
        except OSError as error:
            raise ConfigurationError(
                "The file {file} cannot be read: {reason}.",
                hint="Check what it is and its rights.",
                file=path.name,
                reason=error.strerror or type(error).__name__,
            ) from error
        finally:
            self._lock.release()
