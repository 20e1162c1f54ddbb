"""Web page reader: links, canonical address and title of a page, its text without boilerplate.

What menus, banners and footers say is left out; the kept part is HTML again, for the parser.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape, unescape
from typing import Any

from rag.plugins.connectors.web_rules import clean_url

# It warns of every page that holds no text, which the sync tells itself.
logging.getLogger("trafilatura").setLevel(logging.ERROR)
# Ends of addresses that hold no text.
_NO_TEXT = re.compile(
    r"\.(?:png|jpe?g|gif|webp|svg|ico|bmp|tiff?|css|js|mjs|map|woff2?|ttf|eot|mp[34]|webm|ogg|wav"
    r"|avi|mov|zip|gz|tgz|bz2|xz|7z|rar|exe|dmg|iso|jar|whl|deb|rpm)$",
    re.IGNORECASE,
)
MAX_LINKS = 5000
# Of the part that a page calls its main one, so much is kept at least.
KEPT_SHARE = 0.8
_AROUND = (
    "//footer[not(ancestor::article)] | //body/header | //*[@role='navigation' or"
    " @role='banner' or @role='contentinfo' or @role='search' or @aria-hidden='true' or @hidden]"
)
_MAIN = "//main | //*[@role='main'] | //article[not(//main) and not(//*[@role='main'])]"


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page: where it says it is, its title, where it leads, its own text as HTML, if any."""

    canonical: str
    title: str
    links: tuple[str, ...] = field(repr=False)
    html: str = field(repr=False)
    is_indexed: bool = True


def read_web_page(body: bytes, url: str, *, charset: str = "") -> WebPage:
    """Return what a page holds; ``charset`` is that of its Content-Type. Never raises.

    ``html`` is empty where nothing is left but menus. ``is_indexed`` False: the page itself asks
    not to be indexed.
    """
    # Heavy, and only for those who follow a website.
    from lxml import etree, html

    parser = html.HTMLParser(encoding="utf-8", remove_comments=True)
    try:
        tree: Any = html.document_fromstring(_utf8(body, charset), parser=parser)
    except (etree.ParserError, ValueError):
        return WebPage(url, "", (), "")
    base = clean_url((tree.xpath("string(//base/@href)") or url), base=url) or url
    canonical = clean_url(tree.xpath("string(//link[@rel='canonical']/@href)"), base=base)
    robots = str(tree.xpath("string(//meta[@name='robots']/@content)")).lower()
    links = () if "nofollow" in robots else tuple(dict.fromkeys(_links(tree, base)))
    # Some parts of the page are changed in place.
    kept = "" if "noindex" in robots else _main_part(tree, url)
    return WebPage(canonical or url, _title(tree), links, kept, "noindex" not in robots)


def _links(tree: Any, base: str) -> Iterator[str]:
    hrefs = tree.xpath("//a[@href and not(contains(@rel, 'nofollow'))]/@href | //area/@href")
    for href in hrefs[:MAX_LINKS]:
        url = clean_url(str(href), base=base)
        if url and not _NO_TEXT.search(url.partition("?")[0]):
            yield url


def _title(tree: Any) -> str:
    for path in (
        "string(//h1)",
        "string(//title)",
        "string(//meta[@property='og:title']/@content)",
    ):
        if title := " ".join(str(tree.xpath(path)).split()):
            return title[:150]
    return ""


def _main_part(tree: Any, url: str) -> str:
    # Heavy, as above.
    from lxml import etree
    from trafilatura import extract

    title = _title(tree)
    # Whole parts by their names: what is left of a short page is too little to tell by its words.
    etree.strip_elements(tree, "script", "style", "noscript", "template", "nav", with_tail=False)
    for one in tree.xpath(_AROUND):
        one.drop_tree()
    mains = tree.xpath(_MAIN)
    main = mains[0] if len(mains) == 1 else None
    kept = extract(
        tree,
        url=url,
        output_format="html",
        include_comments=False,
        include_tables=True,
        include_formatting=True,
        favor_recall=True,
    )
    body = re.sub(r"(?s)^.*?<body>|</body>.*$", "", kept or "")
    n_main = 0 if main is None else _n_characters(str(main.text_content()))
    # What the site itself calls the page's main part is taken whole where much of it would go, and
    # so is a short page, which the library gives as one paragraph without its tables.
    if _n_characters(_text(body)) < KEPT_SHARE * n_main or body.count("<") <= 2:
        whole = main if main is not None else next(iter(tree.xpath("//body")), tree)
        body = etree.tostring(whole, encoding="unicode", method="html")
        body = re.sub(r"(?s)^<body[^>]*>|</body>.*$", "", body)
    if not any(map(str.isalnum, _text(body))):
        return ""
    head = "" if "<h1" in body else f"<h1>{escape(title)}</h1>\n"
    return (
        '<!DOCTYPE html>\n<html><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title></head><body>\n{head}{body}\n</body></html>\n"
    )


def _text(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html))


def _n_characters(text: str) -> int:
    return len("".join(text.split()))


def _utf8(body: bytes, told: str) -> bytes:
    found = re.search(rb"""<meta[^>]+charset=["']?([\w-]+)""", body[:4096], re.IGNORECASE)
    named = found[1].decode("ascii", "replace") if found else ""
    for name in filter(None, ("utf-8-sig", told, named, "gb18030", "cp1252")):
        try:
            return body.decode(name).encode()
        except (UnicodeError, LookupError):
            continue
    return body.decode("utf-8", "replace").encode()
