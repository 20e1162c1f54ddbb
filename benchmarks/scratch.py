"""Scratch database of a benchmark: migrated, empty, dropped afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django.setup()

from django.db import connection  # noqa: E402 - Django's settings come first

NAME = "citable_bench"


@contextmanager
def scratch_database() -> Iterator[None]:
    """Use a migrated database beside the configured one; what a killed run left is removed."""
    configured = connection.settings_dict["NAME"]
    connection.settings_dict["TEST"]["NAME"] = NAME
    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        yield
    finally:
        connection.creation.destroy_test_db(configured, verbosity=0)


def join_database() -> None:
    """Use the scratch database that another process has made."""
    connection.settings_dict["NAME"] = NAME
