"""The connector ``entries``: each entry of the glossary is a document that a store follows."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from typing import IO

from citable_glossary.source import shipped
from rag.core.connectors import ConnectorContext, OriginDocument
from rag.core.errors import NotFoundError
from rag.core.options import option
from rag.core.plugins import register


@register("connector")
class Entries:
    """The entries of the glossary that begin with some letters."""

    name = "entries"
    label = "Entries of the glossary"

    @dataclass(frozen=True)
    class Options:
        begin: str = option("", help="Only entries whose term begins so.")

    def __init__(self, options: Options) -> None:
        self.options = options

    def __str__(self) -> str:
        return self.name

    def list(self, context: ConnectorContext) -> Iterator[OriginDocument]:
        """Yield each entry; its hash is its mark."""
        terms = [term for term in sorted(shipped()) if term.startswith(self.options.begin)]
        if not terms:
            raise NotFoundError("No entry begins with “{begin}”.", begin=self.options.begin)
        for term in terms:
            body = _text(term)
            yield OriginDocument(f"{term}.md", len(body), sha256(body).hexdigest())

    def since(self, context: ConnectorContext) -> None:
        """Return None: the glossary knows no times."""

    def fetch(
        self, document: OriginDocument, context: ConnectorContext
    ) -> AbstractContextManager[IO[bytes]]:
        """Open one entry."""
        return io.BytesIO(_text(document.path.removesuffix(".md")))

    def permissions(self, document: OriginDocument) -> None:
        """Return None: everybody may read a glossary."""


def _text(term: str) -> bytes:
    return f"# {term}\n\n{shipped()[term]}\n".encode()
