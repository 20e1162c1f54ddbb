"""Rejects command options that would have no effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.core.management.base import CommandError


def reject_unused_options(
    options: Mapping[str, Any], names: Iterable[str], *, with_what: str
) -> None:
    """Raise CommandError for the first of ``names`` that was given; ``with_what`` it would do."""
    for name in names:
        value = options[name]
        if value is not None and value is not False and value not in ("", []):
            raise CommandError(f"--{name.replace('_', '-')} goes with {with_what} only.")
