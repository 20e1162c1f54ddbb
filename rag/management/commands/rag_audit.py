"""``manage.py rag_audit --forget-before DATE``: the only way by which the audit grows shorter."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from datetime import date, datetime, time
from typing import Any

from django.utils import timezone

from rag.management.rag_command import RagCommand
from rag.services.access import purge_audit


class Command(RagCommand):
    """Deletes the audit's entries before a day; the last 30 days always stay."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--forget-before",
            type=_day,
            required=True,
            metavar="YYYY-MM-DD",
            help="the first day that stays",
        )
        parser.add_argument("--dry-run", action="store_true", help="only tell how many would go")

    def handle(self, *args: Any, **options: Any) -> None:
        """Forget, and tell how many went."""
        before = timezone.make_aware(datetime.combine(options["forget_before"], time.min))
        n = purge_audit(before=before, is_dry=options["dry_run"])
        done = "would be forgotten" if options["dry_run"] else "are forgotten"
        self.stdout.write(f"{n} entries {done}")


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ArgumentTypeError(f"“{text}” is no day, such as 2026-01-31") from error
