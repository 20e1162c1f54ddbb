"""Downloads of http, https and data URLs to disk, within a budget of bytes."""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError, LimitError
from rag.core.sources import FetchRequest
from rag.providers.http.guard import GuardedHttp
from rag.stages.detect.mime_type import read_data_url

MB = 1024**2


class ByteBudget:
    """Bytes that several files may have together; ``each`` is what one may have."""

    def __init__(self, total: int, each: int) -> None:
        self.total, self.each = total, each
        self._left = total
        self._lock = threading.Lock()

    def take(self, n: int) -> None:
        """Use ``n`` bytes, give them back when negative; raise LimitError when there are none."""
        with self._lock:
            if n > self._left:
                raise LimitError(
                    "The files are larger than {limit} MB together.",
                    hint="Send fewer, or smaller ones.",
                    limit=self.total // MB,
                )
            self._left -= n


class BudgetedFile(io.FileIO):
    """A new file on disk whose bytes are taken from a budget; what is cut off is given back."""

    def __init__(self, path: Path, budget: ByteBudget) -> None:
        super().__init__(path, "w+")
        self._budget = budget
        self._n = 0

    def write(self, data: Any, /) -> int:
        """Write all of ``data``; raise LimitError when the budget is used up."""
        view = memoryview(data)
        self._budget.take(len(view))
        self._n += len(view)
        done = 0
        while done < len(view):
            done += super().write(view[done:]) or 0
        return done

    def truncate(self, size: int | None = None, /) -> int:
        """Cut the file off."""
        kept = super().truncate(size)
        self._budget.take(min(0, kept - self._n))
        self._n = min(self._n, kept)
        return kept


def download_url(
    url: str,
    target: Path,
    *,
    name: str,
    budget: ByteBudget,
    deadline: Deadline,
    allowed: Sequence[str],
) -> None:
    """Write the bytes to ``target``; raise as ``GuardedHttp.download`` does.

    ``name`` is for the errors, ``allowed`` are private hosts that may be called. Raises
    InvalidInputError for another scheme, LimitError over the budget.
    """
    scheme = url.partition(":")[0].lower()
    with BudgetedFile(target, budget) as sink:
        if scheme == "data":
            sink.write(read_data_url(url, name=name, max_bytes=budget.each))
        elif scheme in ("http", "https"):
            GuardedHttp(allowed).download(
                FetchRequest(url, max_bytes=budget.each), sink, deadline=deadline
            )
        else:
            raise InvalidInputError(
                "The address begins with “{scheme}”.",
                hint="Allowed: http, https, data, and files of this knowledge base.",
                scheme=scheme[:20],
            )
