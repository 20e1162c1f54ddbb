"""Uploads on their way to disk: no more of a file is kept than is needed to refuse it."""

from __future__ import annotations

from typing import Any

from django.core.files.uploadhandler import TemporaryFileUploadHandler

from rag.conf import conf


class CappedUploadHandler(TemporaryFileUploadHandler):
    """Writes each file to a temporary one and drops what comes after the limit and one byte.

    The byte too much tells the ingest that the file is too large; the disk is not filled.
    """

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        """Begin a file."""
        super().new_file(*args, **kwargs)
        self.n_kept = 0

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        """Write what there is room for."""
        kept = raw_data[: conf().max_file_bytes + 1 - self.n_kept]
        self.n_kept += len(kept)
        self.file.write(kept)

    def file_complete(self, file_size: int) -> Any:
        """Return the file with the size that was kept."""
        return super().file_complete(self.n_kept)
