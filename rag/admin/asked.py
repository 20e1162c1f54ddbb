"""What an address or a form asks for. In: text. Out: a number that the database takes."""

from __future__ import annotations


def asked_number(text: str | None) -> int:
    """Return a natural number of up to 18 digits, 0 for anything else."""
    digits = text or ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 18 else 0
