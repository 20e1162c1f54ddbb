"""Sites of others with the widget's line, one listed and one not, and a visitor who asks there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Browser, Page, expect

from agents import models
from tests.browser.test_accessibility import PHONE, READABILITY
from tests.browser.visitor import WAIT_MS
from tests.fakes.loopback import Reply
from tests.fakes.website import Website
from tests.integration.agent_world import QUOTE

FRAME = "(src) => document.body.append(Object.assign(document.createElement('iframe'), { src }))"


@dataclass
class Shop:
    """A site that is listed and one that is not, both with the widget's line."""

    listed: str
    stranger: str
    server: str
    widget: models.Widget


def site(key: str, server: str) -> Website:
    policy = (
        f"default-src 'none'; script-src {server}; frame-src {server}; "
        "require-trusted-types-for 'script'"
    )
    line = f'<script async src="{server}/widget/{key}.js"></script>'
    body = f'<!DOCTYPE html><html lang="zh-CN"><head>{line}</head><body><h1>Shop</h1></body></html>'
    headers = {"Content-Type": "text/html", "Content-Security-Policy": policy}
    return Website({"*": Reply(body.encode(), 200, headers)})


@contextmanager
def shop_of(widget: models.Widget, server: str) -> Iterator[Shop]:
    """Serve both sites; the widget lists one of them."""
    sites = [site(widget.key, server) for _ in range(2)]
    with sites[0] as listed, sites[1] as stranger:
        widget.origins = [listed.origin]
        widget.save()
        yield Shop(listed.origin, stranger.origin, server, widget)


def ask_on_another_site(shop: Shop, browser: Browser) -> None:
    """Ask on the listed site, under its strict policy; the other site is refused in words."""
    context = browser.new_context(locale="en-US", viewport={"width": 1000, "height": 800})
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    try:
        _an_answer_and_its_quote_are_shown(page, shop)
        _the_conversation_goes_on_elsewhere_on_the_site(page, shop)
        assert [one for one in told if "Content Security" in one] == []
        told.clear()
        with page.expect_event("console", lambda one: shop.stranger in one.text):
            page.goto(shop.stranger)
        assert page.locator("citable-widget").count() == 0
        # Whoever frames it without asking the loader is refused by the browser.
        address = f"{shop.server}/widget/{shop.widget.key}"
        with page.expect_event("console", lambda one: "frame-ancestors" in one.text):
            page.evaluate(FRAME, address)
    finally:
        context.close()


def _an_answer_and_its_quote_are_shown(page: Page, shop: Shop) -> None:
    page.goto(f"{shop.listed}/pumps")
    page.locator("citable-widget button").click()
    chat = page.frame_locator("citable-widget iframe")
    expect(chat.locator("body[data-ready]")).to_be_visible()
    # The language is that of the page around it.
    expect(chat.locator("#send")).to_have_text("发送")
    chat.locator("#message").fill("Be hostile about the pump")
    chat.locator("#message").press("Enter")
    expect(chat.locator(".turn.assistant .tools")).to_be_visible()
    assert chat.locator(".turn.assistant .body img").count() == 0
    chat.locator("#message").fill("How often is the pump serviced?")
    chat.locator("#message").press("Enter")
    chat.locator(".cite.verified").click()
    expect(chat.locator("#quote-mark")).to_have_text(QUOTE)
    frame = page.frames[-1]
    assert frame.evaluate(READABILITY) == {"pale": [], "nameless": [], "wide": 0}
    page.set_viewport_size(PHONE)
    assert frame.evaluate(READABILITY) == {"pale": [], "nameless": [], "wide": 0}
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.locator("citable-widget iframe")).to_be_hidden()
    assert page.evaluate("() => window.owned") is None


def _the_conversation_goes_on_elsewhere_on_the_site(page: Page, shop: Shop) -> None:
    page.goto(f"{shop.listed}/filters")
    page.locator("citable-widget button").click()
    chat = page.frame_locator("citable-widget iframe")
    expect(chat.locator(".turn")).to_have_count(4)
    session: Any = models.Session.objects.get(widget=shop.widget)
    assert session.user is None and len(session.visitor) == 64
