"""Files within addresses: ``data:`` (RFC 2397). In: the address. Out: its bytes."""

from __future__ import annotations

import base64
import binascii
from urllib.parse import unquote_to_bytes

from rag.core.errors import InvalidInputError, LimitError


def read_data_url(url: str, *, name: str, max_bytes: int) -> bytes:
    """Return the bytes, base64 or percent-encoded; ``name`` is for the errors.

    Raises InvalidInputError for what cannot be read, LimitError for more than ``max_bytes``.
    """
    head, comma, body = url.partition(",")
    if not comma or not head.lower().startswith("data:"):
        raise InvalidInputError("The data address of “{name}” has no content.", name=name)
    try:
        raw = unquote_to_bytes(body)
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            "The text “{name}” holds half a character.", hint="Enter it again.", name=name
        ) from error
    if head.lower().rstrip().endswith(";base64"):
        packed = raw.translate(None, b" \t\r\n").replace(b"-", b"+").replace(b"_", b"/")
        try:
            raw = base64.b64decode(packed + b"=" * (-len(packed) % 4), validate=True)
        except binascii.Error as error:
            raise InvalidInputError(
                "The data address of “{name}” is no base64: {reason}.", name=name, reason=error
            ) from error
    if len(raw) > max_bytes:
        raise LimitError(
            "“{name}” is larger than {limit} MB.", hint="Split it and upload the parts.",
            name=name, limit=max_bytes // 1024**2,
        )  # fmt: skip
    return raw
