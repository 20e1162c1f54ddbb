"""Connector ``feed``: the entries of an RSS or Atom feed; those that leave the feed stay here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from django.utils.translation import gettext_noop

from rag.core.connectors import ConnectorContext, OriginDocument
from rag.core.errors import ProviderError, RAGError
from rag.core.options import option
from rag.core.plugins import register
from rag.core.sources import FetchRequest
from rag.plugins.connectors.web_page import read_web_page
from rag.plugins.connectors.web_rules import AGENT, check_start, clean_url

MAX_FEED_BYTES, MAX_PAGE_BYTES = 20_000_000, 3_000_000


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """An entry of a feed; ``version`` changes with what it says, ``html`` is its own text."""

    key: str
    title: str
    url: str
    version: str
    html: str


@register("connector")
class FeedConnector:
    """The entries of a feed, each a document, with the pages that they lead to."""

    name = "feed"
    label = gettext_noop("Feed (RSS, Atom)")

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """Which feed, and whether its pages are read."""

        address: str = option(help="Web address of the feed.")
        reads_pages: bool = option(
            True, help="Read the page that an entry leads to, not only what the feed says of it."
        )

    def __init__(self, options: Options) -> None:
        self._options = options
        self._address = check_start(options.address)
        self._held: dict[str, Path] = {}
        self.origin_name = urlsplit(self._address).hostname or ""

    def __str__(self) -> str:
        return self._address

    def list(self, context: ConnectorContext) -> Iterator[OriginDocument]:
        """Yield the entries, and those known ones that the feed no longer tells."""
        request = FetchRequest(
            self._address, headers={"User-Agent": AGENT}, max_bytes=MAX_FEED_BYTES, retries=1
        )
        entries = read_feed(context.fetch(request).body, self._address)
        if entries is None:
            raise ProviderError(
                "{address} is no feed.", hint="Check the address.", address=self._address
            )
        told = {entry.key: entry for entry in entries}
        for key, entry in told.items():
            known = context.known.get(key)
            if known is not None and known.mark == entry.version:
                yield OriginDocument(key, known.size, known.mark, known.url, sha256=known.sha256)
            else:
                yield self._document(entry, context)
        for path, known in context.known.items():
            if path not in told:
                yield OriginDocument(path, known.size, known.mark, known.url, sha256=known.sha256)

    def since(self, context: ConnectorContext) -> None:
        """Return None: a feed is read whole each time."""

    def fetch(
        self, document: OriginDocument, context: ConnectorContext
    ) -> AbstractContextManager[IO[bytes]]:
        """Open what the list has written."""
        return self._held[document.path].open("rb")

    def permissions(self, document: OriginDocument) -> None:
        """Return None: feeds have no groups of people."""

    def _document(self, entry: FeedEntry, context: ConnectorContext) -> OriginDocument:
        html = entry.html
        if self._options.reads_pages and entry.url:
            request = FetchRequest(
                entry.url, headers={"User-Agent": AGENT}, max_bytes=MAX_PAGE_BYTES, retries=1
            )
            try:
                reply = context.fetch(request)
            except RAGError as error:
                return OriginDocument(entry.key, url=entry.url, fault=error)
            html = read_web_page(reply.body, reply.url).html or html
        whole = html if "<body" in html else f"<h1>{escape(entry.title)}</h1>\n{html}"
        body = whole.encode("utf-8", "replace")
        place = context.scratch / f"{len(self._held)}"
        place.write_bytes(body)
        self._held[entry.key] = place
        name = f"{entry.title.replace('/', '∕')[:150] or 'entry'}.html"
        digest = hashlib.sha256(body).hexdigest()
        return OriginDocument(entry.key, len(body), entry.version, entry.url, name, digest)


def read_feed(body: bytes, address: str) -> list[FeedEntry] | None:
    """Return the entries of an RSS or Atom feed; None for what is no feed.

    Entities are not resolved and nothing is loaded.
    """
    # Heavy, and only for those who follow a feed.
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True)
    try:
        root: Any = etree.fromstring(body, parser=parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    if root is None or etree.QName(root).localname not in ("rss", "feed", "RDF"):
        return None
    found = (one for one in root.iter("{*}item", "{*}entry", "item", "entry"))
    return [_entry(one, address) for one in found]


def _entry(element: Any, address: str) -> FeedEntry:
    # Heavy, as above.
    from lxml import etree

    texts: dict[str, str] = {}
    link = ""
    for part in element:
        if not isinstance(part.tag, str):
            continue
        name = etree.QName(part).localname
        if name == "link" and part.get("href"):
            if part.get("rel", "alternate") == "alternate":
                link = link or part.get("href")
            continue
        inner = "".join(etree.tostring(child, encoding="unicode") for child in part)
        texts.setdefault(name, ((part.text or "") + inner).strip())
    url = clean_url(link or texts.get("link", ""), base=address)
    html = texts.get("encoded") or texts.get("content") or ""
    html = html or texts.get("description") or texts.get("summary") or ""
    title = " ".join(texts.get("title", "").split())
    key = texts.get("guid") or texts.get("id") or url or hashlib.md5(html.encode()).hexdigest()
    told = "\n".join((texts.get("updated", ""), texts.get("pubDate", ""), title, url, html))
    return FeedEntry(key[:500], title, url, hashlib.md5(told.encode()).hexdigest(), html)
