"""A website on loopback: pages with ETags, robots.txt, redirects, and pages that never end."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import md5

from tests.fakes.loopback import Call, LoopbackServer, Reply

MENU = '<nav><a href="/">Home of the menu</a></nav>'
FOOT = "<footer>Imprint of the footer, all rights reserved</footer>"
Page = str | bytes | Reply | Callable[[Call], Reply]


def page(title: str, text: str, *links: str, head: str = "") -> str:
    """Return a page as sites write them: menu, an article with links, footer."""
    ways = "".join(f'<p>See <a href="{link}">{link}</a> for more about it.</p>' for link in links)
    return (
        f"<html><head><title>{title} - Site</title>{head}</head><body>{MENU}<main><article>"
        f"<h1>{title}</h1><p>{text}</p>{ways}</article></main>{FOOT}</body></html>"
    )


class Website(LoopbackServer):
    """Serves ``pages`` by path; texts are HTML with an ETag that follows what they say."""

    def __init__(self, pages: dict[str, Page] | None = None) -> None:
        super().__init__()
        self.pages: dict[str, Page] = pages or {}

    def answer(self, call: Call) -> Reply:
        """Return the page of the path."""
        found = self.pages.get(call.path)
        if found is None:
            found = self.pages.get("*", Reply(b"gone", 404))
        if callable(found):
            return found(call)
        if isinstance(found, Reply):
            return found
        body = found.encode() if isinstance(found, str) else found
        etag = f'"{md5(body).hexdigest()}"'
        if call.headers.get("if-none-match") == etag:
            return Reply(b"", 304, {"ETag": etag})
        return Reply(body, 200, {"Content-Type": "text/html; charset=utf-8", "ETag": etag})

    def asked(self) -> list[str]:
        """Return the paths that were asked for, robots.txt and the sitemap left out."""
        apart = ("/robots.txt", "/sitemap.xml")
        return sorted(call.path for call in self.calls if call.path not in apart)
