"""Sitemaps: addresses of a site's pages and when each was changed, with all bounds on what it is.

Entities are not resolved, nothing is loaded, and what is no sitemap has no addresses.
"""

from __future__ import annotations

import zlib
from typing import Any

MAX_BYTES, MAX_ADDRESSES = 50_000_000, 200_000
_GZIP = 16 + zlib.MAX_WBITS


def read_sitemap(body: bytes) -> tuple[dict[str, str], list[str]]:
    """Return addresses with the times of their last changes, and those of further sitemaps."""
    # Heavy, and only for those who follow a website.
    from lxml import etree

    if body.startswith(b"\x1f\x8b"):
        try:
            body = zlib.decompressobj(_GZIP).decompress(body, MAX_BYTES)
        except zlib.error:
            return {}, []
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True)
    try:
        root: Any = etree.fromstring(body, parser=parser)
    except (etree.XMLSyntaxError, ValueError):
        return {}, []
    pages: dict[str, str] = {}
    further: list[str] = []
    for one in root if root is not None else ():
        if not isinstance(one.tag, str):
            continue
        texts = {
            etree.QName(part).localname: (part.text or "").strip() for part in one.iter("{*}*")
        }
        kind, place = etree.QName(one).localname, texts.get("loc", "")
        if kind == "sitemap":
            further.append(place)
        elif kind == "url" and len(pages) < MAX_ADDRESSES:
            pages[place] = texts.get("lastmod", "")
    return pages, further
