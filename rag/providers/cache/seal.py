"""Sealed cache entries: keyed names (HMAC) and authenticated, compressed values.

A name says nothing about a question. A value opens only under the name that it was sealed for and
with this installation's secret, so that what is damaged, foreign or put in another's place is a
miss.
"""

from __future__ import annotations

import hashlib
import hmac
import zlib

MAX_VALUE = 4_000_000
_SIZE = 16


class Seal:
    """Makes names and seals values; installations with other secrets never meet.

    ``purpose`` keeps kinds of values apart.
    """

    def __init__(self, secret: str, purpose: str) -> None:
        self._key = hashlib.blake2b(
            f"{purpose}\0{secret}".encode(), person=b"citable-cache"
        ).digest()
        installation = hashlib.blake2b(
            secret.encode(), digest_size=6, person=b"citable-name"
        ).hexdigest()
        self.prefix = f"citable:{installation}:{purpose}:"

    def name(self, asked: bytes) -> str:
        """Return the name under which the answer to ``asked`` is kept."""
        return self.prefix + hashlib.blake2b(asked, key=self._key, digest_size=20).hexdigest()

    def close(self, name: str, value: bytes) -> bytes:
        """Return ``value``, packed and sealed for ``name``."""
        packed = zlib.compress(value, 1)
        return self._mark(name, packed) + packed

    def open(self, name: str, sealed: bytes) -> bytes | None:
        """Return the value that was sealed for ``name``, or None when this is none such."""
        mark, packed = sealed[:_SIZE], sealed[_SIZE:]
        if not hmac.compare_digest(mark, self._mark(name, packed)):
            return None
        unpacking = zlib.decompressobj()
        try:
            value = unpacking.decompress(packed, MAX_VALUE)
        except zlib.error:
            return None
        return value if unpacking.eof else None

    def _mark(self, name: str, packed: bytes) -> bytes:
        return hashlib.blake2b(
            name.encode() + b"\0" + packed, key=self._key, digest_size=_SIZE
        ).digest()
