"""Browser page that records console errors, failed requests and other oddities."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Route, expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Silent: no look-ups of its own, no sandbox, which containers cannot give it.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
)
LOCALES = {"en": "en-US", "zh-hans": "zh-CN"}
PASSWORD = "correct horse battery"
WAIT_MS = 30_000
# What is expected waits as long as what is clicked; the default is 5 s, too few on a busy machine.
expect.set_options(timeout=WAIT_MS)


def chromium() -> str | None:
    """Return the path of a Chromium of this machine, None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def one_browser() -> Iterator[Browser]:
    """Lend a browser.

    Its driver runs a loop on this thread, where Django then forbids the database: it is allowed
    as long, since nothing else runs on that loop.
    """
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS])
            yield browser
            browser.close()
    finally:
        os.environ.pop("DJANGO_ALLOW_ASYNC_UNSAFE")
        if before is not None:
            os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = before


@dataclass
class Visitor:
    """A page of its own, signed in; ``odd`` collects faults of scripts and requests abroad."""

    page: Page
    url: str
    odd: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        """Open a page that must be there."""
        response = self.page.goto(f"{self.url}{path}")
        assert response is not None and response.status == 200, (path, response)


@contextmanager
def visitor(browser: Browser, url: str, user: Any, **more: Any) -> Iterator[Visitor]:
    """Sign ``user`` in; ``language`` and what Playwright's ``new_context`` takes may be given."""
    language = more.pop("language", "en")
    user.set_password(PASSWORD)
    user.save()
    more = {"viewport": {"width": 1280, "height": 860}, "locale": LOCALES[language], **more}
    context = browser.new_context(**more)
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    somebody = Visitor(page, url)

    def guard(route: Route) -> None:
        if urlsplit(route.request.url).hostname in ("127.0.0.1", "localhost"):
            route.continue_()
        else:
            somebody.odd.append(f"asked {route.request.url}")
            route.abort()

    context.route("**/*", guard)

    def hear(message: ConsoleMessage) -> None:
        # What the content security policy has kept from running, and what the theme cannot read.
        if "Content Security Policy" in message.text or "CSP" in message.text:
            somebody.odd.append(f"policy {page.url}: {message.text}")

    page.on("console", hear)
    page.on("pageerror", lambda error: somebody.odd.append(f"fault {error}"))
    page.goto(f"{url}/admin/login/?next=/chat")
    page.fill("[name=username]", user.username)
    page.fill("[name=password]", PASSWORD)
    page.click("[type=submit]")
    page.wait_for_selector("body[data-ready]")
    try:
        yield somebody
    finally:
        context.close()
