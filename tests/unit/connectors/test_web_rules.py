"""Crawling rules, sitemaps and pages: one spelling of addresses, bounds, no boilerplate."""

from __future__ import annotations

import gzip

import pytest

from rag.core.errors import InvalidInputError
from rag.plugins.connectors.web_page import read_web_page
from rag.plugins.connectors.web_rules import CrawlScope, RobotRules, check_start, clean_url
from rag.plugins.connectors.web_sitemap import read_sitemap
from tests.fakes.website import page


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("HTTP://E.org:80/a b/中?q=1#x", "http://e.org/a%20b/%E4%B8%AD?q=1"),
        ("https://e.org", "https://e.org/"),
        ("https://e.org./a", "https://e.org/a"),
        ("https://e.org/?utm_source=x&a=1&fbclid=y", "https://e.org/?a=1"),
        ("https://e.org/a%2Fb", "https://e.org/a%2Fb"),
        ("http://[::1]:8/", "http://[::1]:8/"),
        ("ftp://e.org/", ""),
        ("javascript:alert(1)", ""),
        ("https://user:secret@e.org/", ""),
        ("https://e.org:99999/", ""),
        ("https://[e.org/", ""),
        ("https://e.org/" + "x" * 3000, ""),
    ],
)
def test_an_address_has_one_spelling(url: str, clean: str) -> None:
    assert clean_url(url) == clean


def test_relative_addresses_are_those_of_their_page() -> None:
    assert clean_url("../b?x=1", base="https://e.org/a/c/d") == "https://e.org/a/b?x=1"
    assert clean_url("//other.org/x", base="https://e.org/") == "https://other.org/x"
    for bad in ("", "e.org", "mailto:a@b.c"):
        with pytest.raises(InvalidInputError, match="no web address"):
            check_start(bad)


@pytest.mark.parametrize(
    ("url", "is_taken"),
    [
        ("https://e.org/docs/x", True),
        ("https://www.e.org/docs/x", True),
        ("https://e.org/other", False),
        ("https://evil.org/docs/x", False),
        ("https://e.org.evil.org/docs/x", False),
        ("https://e.org/docs/private/x", False),
        ("https://e.org/docs/x?print=1", False),
        ("https://e.org/docs/a/b/a/b/a/b/a/b", False),
    ],
)
def test_a_crawl_stays_below_its_start(url: str, is_taken: bool) -> None:
    scope = CrawlScope.of("https://e.org/docs/index.html", [], ["/private/", "?*print="])
    assert scope.takes(url) is is_taken


def test_patterns_are_texts_and_stars() -> None:
    scope = CrawlScope.of("https://e.org/docs/", ["/blog/*/en", "a.b(c"], [])
    assert scope.takes("https://e.org/blog/2026/en") and scope.takes("https://e.org/a.b(c")
    assert not scope.takes("https://e.org/blog/2026/de") and not scope.takes("https://e.org/docs/")
    assert not scope.takes("https://other.org/blog/2026/en")


def test_robots_are_obeyed() -> None:
    rules = RobotRules(
        "User-agent: *\nDisallow: /private\nCrawl-delay: 2\nSitemap: https://e.org/s"
    )
    assert rules.allows("https://e.org/a") and not rules.allows("https://e.org/private/x")
    assert (rules.delay_s, rules.sitemaps) == (2.0, ["https://e.org/s"])
    assert RobotRules("\x00<html>").allows("https://e.org/a")


def test_sitemaps_are_read_whatever_they_are() -> None:
    head = '<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    body = f"{head}<url><loc>https://e.org/a</loc><lastmod>2026-01-01</lastmod></url></urlset>"
    assert read_sitemap(body.encode()) == ({"https://e.org/a": "2026-01-01"}, [])
    assert read_sitemap(gzip.compress(body.encode()))[0] == {"https://e.org/a": "2026-01-01"}
    index = "<sitemapindex><sitemap><loc>https://e.org/b.xml</loc></sitemap></sitemapindex>"
    assert read_sitemap(index.encode()) == ({}, ["https://e.org/b.xml"])
    for bad in (b"", b"<html>no", b"\x1f\x8bbroken", b"\x00\xff"):
        assert read_sitemap(bad) == ({}, [])
    outside = f'<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/hostname">]>{body}'
    assert "&" not in str(read_sitemap(outside.replace("/a<", "/&f;<").encode()))


def test_a_page_keeps_its_text_and_loses_its_menus() -> None:
    table = "<table><tr><th>Model</th></tr><tr><td>X1</td></tr></table>"
    read = read_web_page(page("水泵", f"每分钟 20 升。{table}", "/a").encode(), "https://e.org/p")
    assert (read.title, read.links) == ("水泵", ("https://e.org/", "https://e.org/a"))
    assert "每分钟 20 升" in read.html and "<td>X1</td>" in read.html.replace("\n", "").replace(
        " ", ""
    )
    assert "menu" not in read.html and "Imprint" not in read.html


@pytest.mark.parametrize("charset", ["utf-8", "gb18030", "no-such-charset"])
def test_a_page_is_read_in_its_own_encoding(charset: str) -> None:
    text = page("水泵", "每分钟输送二十升，保修期两年。")
    body = text.encode(charset if charset != "no-such-charset" else "utf-8")
    assert read_web_page(body, "https://e.org/", charset=charset).title == "水泵"


def test_what_holds_no_text_is_empty() -> None:
    for body in (
        b"",
        b"\x00\x01<<<",
        b"<html><body><nav>Home</nav></body></html>",
        b"<div>" * 5000,
    ):
        read = read_web_page(body, "https://e.org/")
        assert (read.html, read.canonical) == ("", "https://e.org/")
