"""Contract of connectors. A subclass named ``Test…`` sets ``plugin``, ``options`` and hooks."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from rag.core.connectors import DocumentChanges, KnownDocument, OriginDocument
from rag.core.deadline import Deadline
from rag.core.errors import RAGError
from rag.core.sources import FetchReply, FetchRequest
from rag.plugins.contract_plugin import PluginContract


@dataclass(kw_only=True)
class TrialContext:
    """A ``ConnectorContext`` for tests: any folder, any address, folders that are removed."""

    known: Mapping[str, KnownDocument] = field(default_factory=dict)
    cursor: str = ""
    scratch: Path = field(default_factory=lambda: Path(tempfile.mkdtemp()))
    kept: Path = field(default_factory=lambda: Path(tempfile.mkdtemp()))
    deadline: Deadline = field(default_factory=lambda: Deadline(30.0))
    limit: int = 1000
    max_bytes: int = 10_000_000
    secrets: Mapping[str, str] = field(default_factory=dict)
    skipped: dict[str, RAGError] = field(default_factory=dict)
    early_end: RAGError | None = None

    def folder(self, path: str) -> Path:
        """Return the folder."""
        return Path(path)

    def fetch(self, request: FetchRequest) -> FetchReply:
        """Call an address without the house's guard, which tests of connectors do not need."""
        sent = urllib.request.Request(request.url, headers=dict(request.headers))
        with urllib.request.urlopen(sent, timeout=self.deadline.remaining_s) as reply:
            return FetchReply(reply.status, dict(reply.headers), reply.read(), reply.url)

    def download(self, request: FetchRequest, sink: BinaryIO) -> FetchReply:
        """Do as ``fetch``, into a file."""
        reply = self.fetch(request)
        sink.write(reply.body)
        return replace(reply, body=b"")

    def addresses(self, url: str) -> Sequence[str]:
        """Return this machine's own address."""
        return ["127.0.0.1"]

    def secret(self, name: str, *, url: str = "") -> str:
        """Return a secret of ``secrets``."""
        return self.secrets[name]

    def tell(self, n_listed: int) -> None:
        """End with the deadline."""
        self.deadline.check()

    def skip(self, path: str, reason: RAGError) -> None:
        """Keep what is passed over."""
        self.skipped[path] = reason

    def end_early(self, reason: RAGError) -> None:
        """Keep why the list is not whole."""
        self.early_end = reason

    def remove(self) -> None:
        """Remove the folders."""
        shutil.rmtree(self.scratch)
        shutil.rmtree(self.kept)


class ConnectorContract(PluginContract):
    """What holds for every connector. To be set: ``plugin``, and ``options`` of an origin that has
    at least two documents; ``missing_options`` are those of one that is not there.
    """

    kind = "connector"

    def missing_options(self) -> Mapping[str, Any]:
        """Return options of an origin that does not exist."""
        raise NotImplementedError("missing_options")

    def context(self, **values: Any) -> TrialContext:
        """Return what the connector is lent."""
        return TrialContext(**values)

    def test_documents_are_listed_and_opened(self) -> None:
        context = self.context()
        connector = self.make()
        found = list(connector.list(context))
        assert len(found) >= 2, "the origin has fewer than two documents"
        paths = [one.path for one in found]
        assert len(set(paths)) == len(paths), "two documents have one path"
        for one in found:
            assert one.path and not one.path.startswith("/") and one.title, "a path is unusable"
            assert not one.url or one.url.startswith(("http://", "https://")), "a link is none"
            content = self._content(connector, one, context)
            assert one.size in (0, len(content)), f"{one.path} has another size than it tells"
            digest = hashlib.sha256(content).hexdigest()
            assert one.sha256 in ("", digest), f"{one.path} has other bytes than it tells"
        context.remove()

    def test_what_is_unchanged_is_told_as_unchanged(self) -> None:
        context = self.context()
        connector = self.make()
        first = {one.path: one for one in connector.list(context)}
        digests = {
            path: hashlib.sha256(self._content(connector, one, context)).hexdigest()
            for path, one in first.items()
        }
        known = {
            path: KnownDocument(n, path, digests[path], one.size, one.mark, one.url)
            for n, (path, one) in enumerate(first.items())
        }
        again = self.context(known=known, cursor=context.cursor, kept=context.kept)
        connector = self.make()
        changes = connector.since(again) if context.cursor else None
        assert changes is None or changes == DocumentChanges(), "something changed by itself"
        for one in connector.list(again):
            assert one.path in first, f"{one.path} is new"
            assert one.mark == first[one.path].mark, f"{one.path} has another mark"
            assert one.sha256 in ("", digests[one.path]), f"{one.path} has other bytes"
        shutil.rmtree(again.scratch)
        context.remove()

    def test_an_origin_that_is_not_there_is_an_error_and_never_empty(self) -> None:
        context = self.context()
        try:
            connector = self.make(self.missing_options())
            found = list(connector.list(context))
        except RAGError as error:
            assert str(error).strip()
        else:
            raise AssertionError(f"{len(found)} documents of nothing: the store's would be deleted")
        context.remove()

    def test_permissions_are_names_of_groups_or_none(self) -> None:
        context = self.context()
        connector = self.make()
        for one in connector.list(context):
            groups = connector.permissions(one)
            assert groups is None or all(isinstance(name, str) and name for name in groups)
        context.remove()

    def _content(self, connector: Any, one: OriginDocument, context: TrialContext) -> bytes:
        with connector.fetch(one, context) as stream:
            content: bytes = stream.read()
        return content
