"""File sending: open binary files that the SDK reads piece by piece.

Files go as open files and never as paths: the SDK would put a path's name into a header, which
breaks for all names that are not ASCII, and would guess types by a table that knows few.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from rag.core.errors import DocumentError, LimitError

# What Gemini takes of one file by its documentation; no call of it tells.
MAX_FILE_MB = 100


class MeteredFile(io.BufferedReader):
    """A file that tells ``tell_sent``, before each piece is read, how many bytes went before."""

    def __init__(self, path: Path, tell_sent: Callable[[int], None]) -> None:
        # Closed together with the reader.
        super().__init__(io.FileIO(path))
        self._tell_sent = tell_sent

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next piece."""
        self._tell_sent(self.tell())
        return super().read(size)


def check_size(path: Path, name: str, max_mb: int = MAX_FILE_MB) -> int:
    """Return the bytes of a file; raise LimitError over ``max_mb``, DocumentError for none."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DocumentError(
            "“{name}” cannot be read: {reason}.",
            hint="Upload it again.",
            name=name,
            reason=error.strerror or type(error).__name__,
        ) from None
    if not size:
        raise DocumentError("“{name}” is empty.", hint="Upload a file with text.", name=name)
    if size > max_mb * 1024**2:
        raise LimitError(
            "“{name}” is larger than {most} MB.",
            hint="Split it into smaller files.",
            name=name,
            most=max_mb,
        )
    return size
