"""Audit: tells PostgreSQL who acts, and deletes old entries.

The actor is a session variable that is set before each audited statement: a rollback takes it back,
and a pooled connection may have been somebody else's a moment ago.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from rag.core.errors import InvalidInputError
from rag.core.request_context import PROGRAMS, current_account, current_request

TABLES = (
    "rag_store",
    "rag_store_reader_groups",
    "rag_store_editor_groups",
    "rag_file",
    "rag_file_restricted_to",
    "rag_chunk",
    "rag_droppedspan",
    "rag_apikey",
    "rag_apikey_stores",
    "rag_budget",
    "rag_embeddingspace",
    "rag_reindexrun",
    "rag_webhook",
    "auth_group",
    "auth_group_permissions",
    "agents_agent",
    "agents_agent_stores",
    "agents_agent_reader_groups",
    "agents_agent_editor_groups",
    "agents_flow",
    "agents_flow_runner_groups",
    "agents_flow_editor_groups",
    "agents_flowversion",
    "agents_widget",
)
# What is counted at each request, or while a file is indexed, is not audited.
_COUNTS = re.compile(r'SET "(?:progress|last_login)" = %s WHERE|(?<!")window_requests')
_VERBS = ("INSERT", "UPDATE", "DELETE", "MERGE")
Execute = Callable[..., Any]


def set_actor(execute: Execute, sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Tell the database who acts where a statement changes something audited, and execute it."""
    if isinstance(sql, str) and _is_audited(sql):
        connection = context["connection"]
        with connection.wrap_database_errors, connection.connection.cursor() as cursor:
            cursor.execute("SELECT set_config('citable.actor', %s, false)", [current_actor()])
    return execute(sql, params, many, context)


def install_actor_wrapper(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Let a new connection of ours tell who acts; a receiver of ``connection_created``."""
    if connection.alias == "default" and set_actor not in connection.execute_wrappers:
        connection.execute_wrappers.append(set_actor)


def current_actor() -> str:
    """Return who acts as JSON: edge, user, key, address, request, command."""
    account, request = current_account(), current_request()
    user_id = account.user_id if account.user_id is not None else request.user_id
    if user_id is None and request.who is not None:
        user_id = request.who()
    edge, command = (request.edge, request.command) if request.edge else _process()
    values = {
        "edge": edge,
        "user": user_id,
        "key": account.key_id,
        "address": request.address,
        "request": request.id,
        "command": command,
    }
    return json.dumps({name: value for name, value in values.items() if value not in (None, "")})


def _is_audited(sql: str) -> bool:
    text = sql.upper()
    # Looked for in every statement: the patterns cost a long one 0.1 ms.
    if not any(verb in text for verb in _VERBS):
        return False
    return bool(_writes().search(sql)) and not _COUNTS.search(sql)


@lru_cache(maxsize=1)
def _writes() -> re.Pattern[str]:
    """Return what a statement looks like that changes something audited."""
    tables = "|".join(re.escape(name) for name in (*TABLES, *user_tables()))
    verbs = "INSERT INTO|UPDATE|DELETE FROM|MERGE INTO"
    return re.compile(rf'\b(?:{verbs})\s+(?:ONLY\s+)?"?(?:{tables})\b', re.IGNORECASE)


def user_tables() -> list[str]:
    """Return the tables of the project's user model: of its rows, their groups and their rights."""
    user: Any = get_user_model()
    models = (user, user.groups.through, user.user_permissions.through)
    return [model._meta.db_table for model in models]


@lru_cache(maxsize=1)
def _process() -> tuple[str, str]:
    """Return the edge that this process is by itself, and the command that it was started as."""
    words = sys.argv[:2]
    if not words or Path(words[0]).name not in PROGRAMS or len(words) < 2:
        return "", ""
    if words[1] == "procrastinate":
        return "job", "worker"
    return "command", f"{words[1][:80]} (uid {os.getuid()})"


MIN_DAYS = 30


def purge_audit(*, before: datetime, is_dry: bool = False) -> int:
    """Delete the entries before a time, and note that; the last 30 days always stay.

    Raises InvalidInputError for a later time.
    """
    if (timezone.now() - before).days < MIN_DAYS:
        raise InvalidInputError(
            "The audit keeps at least {days} days.", hint="Name an earlier time.", days=MIN_DAYS
        )
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM audit_entry WHERE at < %s", [before])
        n: int = cursor.fetchone()[0]
        if is_dry or not n:
            return n
        cursor.execute("SELECT set_config('citable.audit_forget', 'on', true)")
        cursor.execute("SELECT set_config('citable.actor', %s, true)", [current_actor()])
        cursor.execute("DELETE FROM audit_entry WHERE at < %s", [before])
        cursor.execute(
            "SELECT audit_write('forget', 'audit', NULL, %s, NULL, '{}',"
            " jsonb_build_object('entries', %s::int))",
            [before.isoformat(timespec="minutes"), n],
        )
    return n
