"""Make a key for an application: ``rag_key NAME --user U [--write] [--store S] [--days N]``."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from rag.management.rag_command import RagCommand, named_user
from rag.services.access import create_key, scope_of
from rag.services.stores import find_stores

_MOST_DAYS = 36_500


class Command(RagCommand):
    """Make a key for an application. It is printed once; the admin lists and revokes keys."""

    def add_arguments(self, parser: ArgumentParser) -> None:
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
        user = named_user(options["user"])
        key, secret = create_key(user=user, **_key_options(user, options))
        self.stderr.write(f"“{key.name}” of {user.get_username()}: {', '.join(key.rights)}")
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
