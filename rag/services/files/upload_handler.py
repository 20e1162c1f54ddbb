"""Upload handler: streams files to disk and keeps no more of one than is needed to refuse it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.core.files.uploadhandler import TemporaryFileUploadHandler

from rag.conf import conf
from rag.core.errors import ConfigurationError


class CappedUploadHandler(TemporaryFileUploadHandler):
    """Writes each file to a temporary one and drops what comes after the limit and one byte.

    The extra byte tells the ingest that the file is too large, and the disk is not filled. Raises
    ConfigurationError when the disk is full.
    """

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        self.n_kept = 0
        with self._disk_errors():
            super().new_file(*args, **kwargs)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        """Write up to one byte more than the limit."""
        kept = raw_data[: conf().max_file_bytes + 1 - self.n_kept]
        self.n_kept += len(kept)
        with self._disk_errors():
            self.file.write(kept)

    def file_complete(self, file_size: int) -> Any:
        """Return the file with the size that was kept, all of it written."""
        with self._disk_errors():
            return super().file_complete(self.n_kept)

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            # Closing removes it; what is still in its buffer finds no room either.
            with suppress(OSError, AttributeError):
                self.file.close()
            raise ConfigurationError(
                "The upload could not be kept: {reason}.",
                hint="Make room on the disk of the server's data, and upload it again.",
                reason=error.strerror or error,
            ) from error
