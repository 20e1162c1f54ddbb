"""Byte ranges: ``ETag``, ``If-None-Match``, ``Range`` and ``If-Range`` of bytes that are delivered.

One range is served; of several, and of one that makes no sense, the whole (RFC 9110, 14.2).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response

from rag.api.http.errors import map_status, render_json

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The bytes from ``start`` to before ``end``, of ``size``."""

    start: int
    end: int
    size: int

    @property
    def length(self) -> int:
        """Return how many they are."""
        return self.end - self.start


def read_range(text: str, size: int) -> ByteRange | None:
    """Return the bytes that a ``Range`` asks for, all of them where it says nothing that can be.

    None when it begins behind the last one.
    """
    found = _RANGE.fullmatch(text.replace(" ", ""))
    first, last = found.groups() if found else ("", "")
    if not (first or last) or (first and last and int(last) < int(first)):
        return ByteRange(0, size, size)
    start = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    return ByteRange(start, end, size) if start < size else None


def deliver_bytes(
    request: HttpRequest,
    *,
    size: int,
    digest: str,
    respond: Callable[[ByteRange], HttpResponseBase],
) -> HttpResponseBase:
    """Return what ``respond`` makes of the bytes asked for: 200, 206, or 304, 412, 416 without it.

    ``digest`` changes whenever the bytes do.
    """
    etag = f'"{digest}"'
    known = get_conditional_response(request, etag=etag)
    if known is not None:
        known["ETag"] = etag
        return known
    asked = request.headers.get("Range", "")
    if request.headers.get("If-Range", etag) != etag:
        asked = ""
    part = read_range(asked, size)
    if part is None:
        refused = render_json(map_status(request, 416))
        refused["Content-Range"] = f"bytes */{size}"
        return refused
    response = respond(part)
    if part.length < size:
        response.status_code = 206
        response["Content-Range"] = f"bytes {part.start}-{part.end - 1}/{size}"
    response["Content-Length"] = str(part.length)
    response["ETag"], response["Accept-Ranges"] = etag, "bytes"
    return response
