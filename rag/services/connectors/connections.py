"""Connections: validate, save and delete what a store follows; the one that a command names."""

from __future__ import annotations

import shutil
from pathlib import Path

from django.db import transaction
from django.utils import timezone

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.errors import InvalidInputError
from rag.services.plugins import make_plugin

CONNECTION_FIELDS = ("name", "schedule", "max_documents", "max_minutes")


def check_connection(*, connection: models.Connection) -> None:
    """Raise InvalidInputError for options that its connector refuses, UnknownNameError for none."""
    make_plugin(kind="connector", name=connection.connector, options=connection.options)


def save_connection(*, scope: Scope, connection: models.Connection) -> None:
    """Save a connection, new or changed; the next sync looks at everything.

    Raises ForbiddenError to who may not change the store, and as ``check_connection`` does.
    """
    connection.store.require_editable(scope)
    check_connection(connection=connection)
    every = models.Connection.EVERY.get(connection.schedule)
    connection.cursor = ""
    if every is None:
        connection.next_run_at = None
    elif connection.next_run_at is None or connection.next_run_at > timezone.now() + every:
        connection.next_run_at = timezone.now() + every
    connection.save()


def delete_connection(*, scope: Scope, connection: models.Connection) -> None:
    """Delete a connection with its runs and what it kept; its files stay, as files of the store."""
    connection.store.require_editable(scope)
    kept = conf().connections_dir / str(connection.pk)
    with transaction.atomic():
        connection.delete()
        transaction.on_commit(lambda: shutil.rmtree(kept, ignore_errors=True))


def connection_at(
    *, scope: Scope, store: models.Store, address: str, label: str = ""
) -> models.Connection:
    """Return the store's connection to a folder, ``s3://bucket/prefix``, a website or a repository.

    A repository is named by ``git+https://…``. The connection is made where there is none, under
    the label, or the address's own name. Raises InvalidInputError for an unusable address.
    """
    if not address.strip():
        raise InvalidInputError("No folder was named.", hint="Name a folder or s3://bucket/prefix.")
    connector, options = _connector_of(address)
    plugin = make_plugin(kind="connector", name=connector, options=options)
    name = label or plugin.origin_name
    known = store.connections.filter(name=name).first()
    if known is not None and known.connector == connector:
        wanted = {**known.options, **options}
    else:
        wanted = options
    connection = known or models.Connection(store=store, name=name)
    if (connection.connector, connection.options) != (connector, wanted):
        connection.connector, connection.options = connector, wanted
        save_connection(scope=scope, connection=connection)
    return connection


def _connector_of(address: str) -> tuple[str, dict[str, str]]:
    scheme, mark, _ = address.partition("://")
    if not mark:
        return "folder", {"folder": str(Path(address).absolute())}
    if scheme in ("http", "https"):
        return "web", {"start": address}
    if scheme.startswith("git+"):
        return "git", {"repository": address.removeprefix("git+")}
    return "s3", {"address": address}
