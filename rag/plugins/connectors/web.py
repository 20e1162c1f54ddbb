"""Connector ``web``: the pages of a website, from a start page or its sitemaps, by its rules.

Every request goes through the guarded network and is conditional where the page is known. What a
page says is kept in the sync's folder, so that what is hashed is what is filed.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from base64 import b64encode
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from django.utils.translation import gettext_noop

from rag.core.connectors import ConnectorContext, KnownDocument, OriginDocument
from rag.core.errors import ForbiddenError, LimitError, ProviderError, RAGError
from rag.core.options import option
from rag.core.plugins import register
from rag.core.sources import FetchReply, FetchRequest
from rag.plugins.connectors.web_page import WebPage, read_web_page
from rag.plugins.connectors.web_rules import (
    AGENT,
    CrawlScope,
    RobotRules,
    check_start,
    clean_url,
)
from rag.plugins.connectors.web_sitemap import read_sitemap

MAX_PAGE_BYTES, MAX_SITEMAPS, MAX_DELAY_S = 3_000_000, 50, 10.0
# Failures in a row after which a site counts as down, and addresses asked in one go.
MAX_FAILURES, WAVE = 25, 32
# Addresses that are kept in mind, for each document that may be listed.
MAX_LINKS_A_PAGE = 50
# Raised when the same bytes of a page would be read otherwise: pages are fetched anew then.
READER = 1
_HTML = ("text/html", "application/xhtml+xml")
_SUFFIXES = {
    "application/pdf": ".pdf",
    "application/msword": ".doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/epub+zip": ".epub",
    "application/rtf": ".rtf",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/csv": ".csv",
}


@dataclass(frozen=True, slots=True)
class _Visit:
    """An address of the crawl: how many links it is away, and when its sitemap says it changed."""

    url: str
    depth: int
    changed: str = ""


@dataclass(frozen=True, slots=True)
class _Fetched:
    """What came of a visit: a reply with its bytes in a file, or an error; neither: unchanged."""

    visit: _Visit
    reply: FetchReply | None = None
    place: Path | None = None
    error: RAGError | None = None
    n_bytes: int = 0


@register("connector")
class WebConnector:
    """The pages of a website, as documents without menus, banners and footers."""

    name = "web"
    label = gettext_noop("Website")

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """Where the site begins, and which of its pages belong to it."""

        start: str = option(
            help="Web address of the start page, such as https://example.org/docs/."
        )
        sitemap: str = option(
            "", help="Address of a sitemap; empty: those of robots.txt, or /sitemap.xml."
        )
        depth: int = option(10, help="Links from the start page at most.", minimum=0, maximum=100)
        include: list[str] = option(
            [],
            help="Parts of addresses that are taken, one a line, * for any text; empty: what is"
            " below the start page.",
        )
        exclude: list[str] = option([], help="Parts of addresses that are left out, one a line.")
        documents: bool = option(True, help="Take PDF, Office and text files too.")
        max_megabytes: int = option(
            1000, help="Most megabytes that one sync fetches.", minimum=1, maximum=100_000
        )
        parallel: int = option(4, help="Requests at the same time.", minimum=1, maximum=8)
        secret: str = option(
            "", help="Name of the secret for a site that asks for one.", is_secret=True
        )
        auth_user: str = option("", help="User name; empty: the secret is sent as a bearer token.")

    def __init__(self, options: Options) -> None:
        self._options = options
        self._start = check_start(options.start)
        self._scope = CrawlScope.of(self._start, options.include, options.exclude)
        self._held: dict[str, Path] = {}
        self._numbers = count()
        self.origin_name = urlsplit(self._start).hostname or ""

    def __str__(self) -> str:
        return self._start

    def list(self, context: ConnectorContext) -> Iterator[OriginDocument]:
        """Yield each page; raise ProviderError where the site itself cannot be reached."""
        rules = self._robots(context)
        changed = self._sitemap_pages(context, rules)
        crawl = _Crawl(self._options.depth, self._scope, rules, context)
        known = {one.url: one for one in context.known.values() if one.url}
        crawl.add(_Visit(self._start, 0, changed.get(self._start, "")))
        for url, at in changed.items():
            crawl.add(_Visit(url, 0, at))
        for url, one in known.items():
            crawl.add(_Visit(url, _mark_of(one)[1], changed.get(url, "")))
        n_failed = n_bytes = 0
        with ThreadPoolExecutor(self._options.parallel) as pool:
            while wave := crawl.next_wave(1 if rules.delay_s else WAVE):
                time.sleep(min(rules.delay_s, MAX_DELAY_S))
                visit = lambda one: self._visit(one, known.get(one.url), context)  # noqa: E731
                for fetched in pool.map(visit, wave):
                    n_failed = n_failed + 1 if _is_down(fetched.error) else 0
                    n_bytes += fetched.n_bytes
                    yield from self._documents(fetched, known, crawl)
                context.tell(crawl.n_visited)
                if early := self._ends(n_failed, n_bytes):
                    context.end_early(early)
                    return

    def since(self, context: ConnectorContext) -> None:
        """Return None: each page is asked whether it changed."""

    def fetch(
        self, document: OriginDocument, context: ConnectorContext
    ) -> AbstractContextManager[IO[bytes]]:
        """Open what the list has fetched."""
        return self._held[document.path].open("rb")

    def permissions(self, document: OriginDocument) -> None:
        """Return None: websites have no groups of people."""

    def _ends(self, n_failed: int, n_bytes: int) -> RAGError | None:
        if n_failed >= MAX_FAILURES:
            return ProviderError(
                "{site} does not answer any more.", hint="Try again later.", site=self.origin_name
            )
        if n_bytes >= self._options.max_megabytes * 1_000_000:
            return LimitError(
                "More than {limit} MB were fetched.",
                hint="The next sync goes on; or raise the limit (max_megabytes).",
                limit=self._options.max_megabytes,
            )
        return None

    def _request(self, url: str, context: ConnectorContext, **more: Any) -> FetchRequest:
        headers = {"User-Agent": AGENT, **more.pop("headers", {})}
        # Sitemaps and links may lead to other hosts, which the secret is not for.
        if self._options.secret and urlsplit(url).netloc == urlsplit(self._start).netloc:
            secret = context.secret(self._options.secret, url=url).strip()
            pair = b64encode(f"{self._options.auth_user}:{secret}".encode()).decode()
            kind = f"Basic {pair}" if self._options.auth_user else f"Bearer {secret}"
            headers["Authorization"] = kind
        return FetchRequest(url, headers=headers, retries=1, **more)

    def _robots(self, context: ConnectorContext) -> RobotRules:
        parts = urlsplit(self._start)
        url = f"{parts.scheme}://{parts.netloc}/robots.txt"
        try:
            reply = context.fetch(self._request(url, context, max_bytes=500_000))
        except ProviderError as error:
            # RFC 9309: what is not there allows all, what cannot be read forbids all.
            if 400 <= _status(error) < 500:
                return RobotRules("")
            raise
        return RobotRules(reply.body.decode("utf-8", "replace"))

    def _sitemap_pages(self, context: ConnectorContext, rules: RobotRules) -> dict[str, str]:
        parts, named = urlsplit(self._start), self._options.sitemap
        guessed = f"{parts.scheme}://{parts.netloc}/sitemap.xml"
        todo = deque([named] if named else rules.sitemaps or [guessed])
        pages: dict[str, str] = {}
        seen: set[str] = set()
        while todo and len(seen) < MAX_SITEMAPS:
            url = clean_url(todo.popleft(), base=self._start)
            if not url or url in seen:
                continue
            seen.add(url)
            try:
                reply = context.fetch(self._request(url, context, max_bytes=50_000_000))
            except (ProviderError, LimitError, ForbiddenError) as error:
                if url != guessed or named:
                    context.skip(url, error)
                continue
            found, further = read_sitemap(reply.body)
            todo.extend(further)
            pages |= {clean_url(place, base=url): changed for place, changed in found.items()}
        return {url: changed for url, changed in pages.items() if url}

    def _visit(
        self, visit: _Visit, known: KnownDocument | None, context: ConnectorContext
    ) -> _Fetched:
        headers: dict[str, str] = {}
        if known is not None:
            reader, _, changed, etag, modified = _mark_of(known)
            if reader == READER:
                if changed and changed == visit.changed:
                    return _Fetched(visit)
                if etag:
                    headers["If-None-Match"] = etag
                if modified:
                    headers["If-Modified-Since"] = modified
        limit = min(context.max_bytes, self._options.max_megabytes * 1_000_000)
        more = {"headers": headers, "max_bytes": limit, "statuses": (304,) if headers else ()}
        place = context.scratch / f"{next(self._numbers)}"
        try:
            with place.open("w+b") as sink:
                reply = context.download(self._request(visit.url, context, **more), sink)
        except RAGError as error:
            n_bytes = place.stat().st_size
            place.unlink()
            return _Fetched(visit, error=error, n_bytes=n_bytes)
        if reply.status == 304:
            place.unlink()
            return _Fetched(visit)
        return _Fetched(visit, reply, place, n_bytes=place.stat().st_size)

    def _documents(
        self, fetched: _Fetched, known: Mapping[str, KnownDocument], crawl: _Crawl
    ) -> Iterator[OriginDocument]:
        """Yield the document of a visit, if it is one, and let the crawl follow its links."""
        visit, old = fetched.visit, known.get(fetched.visit.url)
        if fetched.error is not None:
            if old is not None and _status(fetched.error) not in (404, 410):
                yield OriginDocument(old.path, url=visit.url, fault=fetched.error)
            elif _is_down(fetched.error):
                yield OriginDocument(_path(visit.url), url=visit.url, fault=fetched.error)
            else:
                crawl.context.skip(_path(visit.url), fetched.error)
        elif fetched.reply is None or fetched.place is None:
            if old is not None:
                _, _, _, etag, modified = _mark_of(old)
                mark = json.dumps([READER, visit.depth, visit.changed, etag, modified])
                yield OriginDocument(old.path, old.size, mark, old.url, sha256=old.sha256)
        else:
            yield from self._read(visit, fetched.reply, fetched.place, crawl)

    def _read(
        self, visit: _Visit, reply: FetchReply, place: Path, crawl: _Crawl
    ) -> Iterator[OriginDocument]:
        url = clean_url(reply.url)
        if url != visit.url and not crawl.moves(visit, url):
            return
        kind, _, rest = reply.headers.get("content-type", "").partition(";")
        kind = kind.strip().lower()
        if kind not in _HTML and not (not kind and _looks_like_html(place)):
            yield from self._file(_at(visit, url), reply, place, kind, crawl)
            return
        if place.stat().st_size > MAX_PAGE_BYTES:
            error = LimitError("The page is larger than {limit} MB.", limit=MAX_PAGE_BYTES // 10**6)
            crawl.context.skip(_path(url), error)
            return
        charset = re.search(r"charset=[\"']?([\w-]+)", rest)
        page = read_web_page(place.read_bytes(), url, charset=charset[1] if charset else "")
        for link in page.links:
            crawl.add(_Visit(link, visit.depth + 1))
        if (reason := self._reason_to_skip(page, url, visit, crawl)) is not None:
            crawl.context.skip(_path(url), reason)
            place.unlink()
            return
        place.write_text(page.html, encoding="utf-8")
        name = f"{page.title.replace('/', '∕') or urlsplit(url).path.strip('/') or url}.html"
        yield self._document(_at(visit, url), reply, place, name)

    def _reason_to_skip(
        self, page: WebPage, url: str, visit: _Visit, crawl: _Crawl
    ) -> RAGError | None:
        canonical = page.canonical
        if canonical != url and self._scope.takes(canonical):
            crawl.add(_Visit(canonical, visit.depth))
            return RAGError("It is the page {url}, by its own word.", url=canonical)
        if not page.is_indexed:
            return RAGError("It asks not to be indexed.")
        return None if page.html else RAGError("There is no text beside menus.")

    def _file(
        self, visit: _Visit, reply: FetchReply, place: Path, kind: str, crawl: _Crawl
    ) -> Iterator[OriginDocument]:
        last = urlsplit(visit.url).path.rpartition("/")[2]
        suffix = _SUFFIXES.get(kind, "")
        is_named = last.lower().endswith(tuple(_SUFFIXES.values()))
        if not self._options.documents or not (suffix or is_named):
            reason = RAGError("It is of the type {kind}.", kind=kind or "?")
            crawl.context.skip(_path(visit.url), reason)
            place.unlink()
            return
        name = last if is_named else f"{last or 'index'}{suffix}"
        yield self._document(visit, reply, place, name)

    def _document(self, visit: _Visit, reply: FetchReply, place: Path, name: str) -> OriginDocument:
        path = _path(visit.url)
        self._held[path] = place
        etag, modified = (reply.headers.get(one, "") for one in ("etag", "last-modified"))
        with place.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return OriginDocument(
            path,
            place.stat().st_size,
            json.dumps([READER, visit.depth, visit.changed, etag, modified]),
            visit.url,
            name,
            digest,
        )


class _Crawl:
    """What a crawl has still to visit, and what it has seen."""

    def __init__(
        self, depth: int, scope: CrawlScope, rules: RobotRules, context: ConnectorContext
    ) -> None:
        self.context = context
        self.n_visited = 0
        self._depth, self._scope, self._rules = depth, scope, rules
        self._seen: set[str] = set()
        self._waiting: deque[_Visit] = deque()

    def add(self, visit: _Visit) -> bool:
        """Let an address be visited, once, if it belongs to the crawl; tell whether it will be."""
        url = visit.url
        if url in self._seen or visit.depth > self._depth or not self._scope.takes(url):
            return False
        if len(self._seen) > MAX_LINKS_A_PAGE * self.context.limit:
            self.context.end_early(
                LimitError(
                    "More than {limit} addresses were found.",
                    hint="Exclude those that are no documents, or raise the connection's limit.",
                    limit=len(self._seen) - 1,
                )
            )
            return False
        self._seen.add(url)
        if not self._rules.allows(url):
            self.context.skip(_path(url), RAGError("The site's robots.txt forbids it."))
            return False
        self._waiting.append(visit)
        return True

    def moves(self, visit: _Visit, url: str) -> bool:
        """Return whether a redirect leads to a page that is to be read in the place of a visit."""
        if url in self._seen:
            return False
        if not self._scope.takes(url) or not self._rules.allows(url):
            error = RAGError("It leads out of the site, to {url}.", url=url)
            self.context.skip(_path(visit.url), error)
            return False
        self._seen.add(url)
        return True

    def next_wave(self, size: int) -> list[_Visit]:
        """Return the next addresses, none when all were visited or too many are asked for."""
        # Twice the limit: some addresses are no documents.
        left = 2 * self.context.limit + WAVE - self.n_visited
        if self._waiting and left <= 0:
            self.context.end_early(
                LimitError(
                    "More than {limit} addresses were visited.",
                    hint="Exclude those that are no documents, or raise the connection's limit.",
                    limit=self.n_visited,
                )
            )
            return []
        wave = [self._waiting.popleft() for _ in range(min(size, left, len(self._waiting)))]
        self.n_visited += len(wave)
        return wave


def _at(visit: _Visit, url: str) -> _Visit:
    """Return a visit at the address where it ended."""
    return _Visit(url, visit.depth, visit.changed)


def _path(url: str) -> str:
    return url.partition("://")[2]


def _mark_of(known: KnownDocument) -> tuple[int, int, str, str, str]:
    """Return reader, depth, the sitemap's time, ETag and Last-Modified of a known page."""
    try:
        reader, depth, changed, etag, modified = json.loads(known.mark)
        return int(reader), int(depth), str(changed), str(etag), str(modified)
    except (ValueError, TypeError):
        return 0, 0, "", "", ""


def _status(error: RAGError) -> int:
    return int(error.params.get("status") or 0)


def _is_down(error: RAGError | None) -> bool:
    return isinstance(error, ProviderError) and not 300 <= _status(error) < 500


def _looks_like_html(place: Path) -> bool:
    with place.open("rb") as stream:
        return b"<html" in stream.read(2000).lower()
