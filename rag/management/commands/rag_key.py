"""Make a key for an application: ``rag_key NAME --user U [--write] [--store S] [--days N]``."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from rag.core.errors import RAGError
from rag.services.access import create_key, scope_of
from rag.services.stores import find_stores

_MOST_DAYS = 36_500


class Command(BaseCommand):
    """Make a key and print it alone, so that a script can take it."""

    help = "Make a key for an application. It is printed once; the admin lists and revokes keys."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("name", help="what the key is for")
        parser.add_argument("--user", required=True, help="as whom the application acts")
        parser.add_argument("--write", action="store_true", help="may change things, not only read")
        parser.add_argument(
            "--store", action="append", help="this store alone; slug or name; repeatable"
        )
        parser.add_argument("--days", type=int, metavar="N", help="valid for N days; else for ever")
        parser.add_argument(
            "--per-minute", type=int, default=600, metavar="N", help="requests; default 600"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the command."""
        user = get_user_model().objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"There is no user “{options['user']}”.")
        try:
            key, secret = create_key(user=user, **_key_options(user, options))
        except RAGError as error:
            raise CommandError(str(error)) from error
        self.stderr.write(f"“{key.name}” of {user.username}: {', '.join(key.rights)}")
        self.stdout.write(secret)


def _key_options(user: Any, options: dict[str, Any]) -> dict[str, Any]:
    days, names = options["days"], options["store"]
    if days is not None and not 1 <= days <= _MOST_DAYS:
        raise CommandError(f"--days is {days}; allowed: 1 to {_MOST_DAYS}.")
    return {
        "name": options["name"],
        "rights": ["read", "write"] if options["write"] else ["read"],
        "stores": find_stores(names=names, scope=scope_of(user)) if names else None,
        "expires_at": None if days is None else timezone.now() + timedelta(days=days),
        "requests_per_minute": options["per_minute"],
    }
