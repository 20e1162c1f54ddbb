"""Let somebody sign in again: ``rag_unlock NAME [--second-factor]``."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from allauth.mfa.models import Authenticator
from axes.utils import reset

from rag.management.rag_command import RagCommand, named_user


class Command(RagCommand):
    """Forget an account's failed logins; with --second-factor also its authenticator."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the account's user name")
        parser.add_argument(
            "--second-factor", action="store_true", help="forget the authenticator app, too"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        user = named_user(options["name"])
        n_rows = reset(username=user.get_username())
        self.stdout.write(f"{n_rows} rows of failed logins of {user.get_username()} are forgotten.")
        if options["second_factor"]:
            n_rows, _ = Authenticator.objects.filter(user=user).delete()
            self.stdout.write(f"{n_rows} authenticators and sets of recovery codes are forgotten.")
