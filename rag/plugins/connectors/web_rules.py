"""Crawling rules: one spelling of web addresses, which of them a crawl takes, robots.txt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode, urljoin, urlsplit, urlunsplit
from urllib.robotparser import RobotFileParser

from rag.core.errors import InvalidInputError

AGENT = "Citable"
MAX_URL_CHARACTERS, MAX_REPEATED = 1500, 3
_PORTS = {"http": 80, "https": 443}
# Parameters that tell where a visitor came from, never which page it is.
_TRACKING = re.compile(r"utm_\w+|gclid|fbclid|msclkid|mc_[ce]id|jsessionid|phpsessid|sid", re.I)


def clean_url(url: str, *, base: str = "") -> str:
    """Return an http(s) address in one spelling, without fragment; empty for any other."""
    try:
        parts = urlsplit(urljoin(base, url.strip()) if base else url.strip())
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return ""
    if parts.scheme not in _PORTS or not host or parts.username is not None:
        return ""
    if ":" in host:
        host = f"[{host}]"
    if port not in (None, _PORTS[parts.scheme]):
        host = f"{host}:{port}"
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    kept = [(name, value) for name, value in pairs if not _TRACKING.fullmatch(name)]
    query = parts.query if len(kept) == len(pairs) else urlencode(kept)
    path = quote(parts.path, "/%:@!$&'()*+,;=~-._", errors="replace")
    found = urlunsplit((parts.scheme, host, path or "/", query, ""))
    return found if len(found) <= MAX_URL_CHARACTERS else ""


@dataclass(frozen=True, slots=True)
class CrawlScope:
    """Which addresses a crawl takes: those below its start, as patterns say."""

    start: str
    includes: Sequence[re.Pattern[str]]
    excludes: Sequence[re.Pattern[str]]

    @classmethod
    def of(cls, start: str, includes: Sequence[str], excludes: Sequence[str]) -> CrawlScope:
        """Return the scope of patterns: parts of addresses, in which ``*`` is any text."""
        return cls(start, tuple(map(_pattern, includes)), tuple(map(_pattern, excludes)))

    def takes(self, url: str) -> bool:
        """Return whether an address, in its one spelling, belongs to the crawl."""
        own, other = urlsplit(self.start), urlsplit(url)
        if _site(own.netloc) != _site(other.netloc) or _repeats(other.path):
            return False
        if any(one.search(url) for one in self.excludes):
            return False
        if self.includes:
            return any(one.search(url) for one in self.includes)
        return other.path.startswith(own.path.rpartition("/")[0] + "/")


def _site(netloc: str) -> str:
    return netloc.removeprefix("www.")


def _repeats(path: str) -> bool:
    # /a/b/a/b/a/b/…: relative links of a page that answers under any path.
    parts = [part for part in path.split("/") if part]
    return any(parts.count(part) > MAX_REPEATED for part in set(parts))


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.strip().split("*"))))


def check_start(url: str) -> str:
    """Return the start page's address in one spelling; raise InvalidInputError for none."""
    found = clean_url(url)
    if not found:
        raise InvalidInputError(
            "“{url}” is no web address.",
            hint="Write it like {example}.",
            url=url,
            example="https://example.org/docs/",
        )
    return found


class RobotRules:
    """What a site's robots.txt allows us; a missing one allows everything."""

    def __init__(self, text: str) -> None:
        self._parser = RobotFileParser()
        self._parser.parse(text.splitlines())

    def allows(self, url: str) -> bool:
        """Return whether we may fetch an address."""
        return self._parser.can_fetch(AGENT, url)

    @property
    def delay_s(self) -> float:
        """Return the pause between two requests that the site asks for; 0 for none."""
        return float(self._parser.crawl_delay(AGENT) or 0)

    @property
    def sitemaps(self) -> list[str]:
        """Return the addresses of sitemaps that it names."""
        return self._parser.site_maps() or []
