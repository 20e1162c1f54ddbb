"""Sync context: known files, the guarded network, secrets and folders that a connector is lent."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from rag.conf import conf
from rag.core.connectors import KnownDocument
from rag.core.deadline import Deadline
from rag.core.errors import ForbiddenError, RAGError
from rag.core.sources import FetchReply, FetchRequest
from rag.providers.http.guard import GuardedHttp
from rag.services.plugins import secret_value

# How long one call may take, and how often progress is told.
CALL_S, TELL_S = 60.0, 1.0


@dataclass(slots=True, kw_only=True)
class SyncContext:
    """``rag.core.connectors.ConnectorContext`` of one sync; ``any_folder`` for who runs commands.

    ``skipped`` and ``is_partial`` are what the connector has told.
    """

    known: Mapping[str, KnownDocument]
    scratch: Path
    kept: Path
    deadline: Deadline
    limit: int
    cursor: str = ""
    max_bytes: int = field(default_factory=lambda: conf().max_file_bytes)
    any_folder: bool = False
    on_tell: Callable[[int], None] = lambda n_listed: None
    skipped: dict[str, RAGError] = field(default_factory=dict)
    early_end: RAGError | None = None
    _told_at: float = 0.0

    def folder(self, path: str) -> Path:
        """Return a folder of this machine; raise ForbiddenError where syncs may not read it."""
        found = Path(path)
        allowed = [Path(one).resolve() for one in conf().sync_folders]
        if not self.any_folder and not any(found.resolve().is_relative_to(one) for one in allowed):
            raise ForbiddenError(
                "Stores may not follow the folder “{path}”.",
                hint="Let an administrator add it to RAG_SYNC_FOLDERS.",
                path=path,
            )
        return found

    def fetch(self, request: FetchRequest) -> FetchReply:
        """Call an address, guarded; private ones only when the installation allows them."""
        sink = BytesIO()
        reply = self.download(request, sink)
        return FetchReply(reply.status, reply.headers, sink.getvalue(), reply.url)

    def download(self, request: FetchRequest, sink: BinaryIO) -> FetchReply:
        """Do as ``fetch``, and write the body to ``sink``, in flat memory."""
        self.deadline.check()
        deadline = Deadline(min(CALL_S, self.deadline.remaining_s))
        with self.deadline.on_cancel(deadline.cancel):
            return GuardedHttp(conf().fetch_hosts).download(request, sink, deadline=deadline)

    def addresses(self, url: str) -> Sequence[str]:
        """Return the checked addresses of a url's host."""
        return GuardedHttp(conf().fetch_hosts).addresses(
            urlsplit(url).hostname or "", deadline=self.deadline
        )

    def secret(self, name: str, *, url: str = "") -> str:
        """Return a secret of the installation, where it may be sent to ``url``."""
        return secret_value(name=name, url=url)

    def tell(self, n_listed: int) -> None:
        """Tell how many documents were looked at; raise CancelledError when it is stopped."""
        self.deadline.check()
        if time.monotonic() - self._told_at >= TELL_S:
            self._told_at = time.monotonic()
            self.on_tell(n_listed)

    def renew(self) -> None:
        """Give what follows the list as much time as the list had."""
        self.deadline = Deadline(self.deadline.timeout_s)

    def skip(self, path: str, reason: RAGError) -> None:
        """Tell what is passed over by intention, and why."""
        self.skipped[path] = reason

    def end_early(self, reason: RAGError) -> None:
        """Tell that the list is not whole: nothing is deleted by this sync."""
        self.early_end = self.early_end or reason
