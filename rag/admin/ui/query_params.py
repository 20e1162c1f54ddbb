"""Query parameters and form values as numbers that the database accepts."""

from __future__ import annotations


def parse_int(text: str | None) -> int:
    """Return a natural number of up to 18 digits, 0 for anything else."""
    digits = text or ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 18 else 0
