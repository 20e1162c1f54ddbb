"""SQL read-only check: a lexer that accepts exactly one statement that reads.

The database enforces the same by a read-only transaction; here the reason is told, and early.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rag.core.errors import ForbiddenError, InvalidInputError

Dialect = Literal["postgresql", "sqlite"]
Kind = Literal["word", "string", "name", "comment", "semicolon", "other", "open"]

# Alternatives are tried in order. A quote, comment or bracket that never ends is "open".
_POSTGRESQL = re.compile(
    r"""
    (?P<comment> --[^\r\n]* )
  | (?P<string> [eE]'(?:[^'\\]|\\.|'')*+' | '(?:[^']|'')*+'
              | \$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$ )
  | (?P<name> (?:[uU]&)?"(?:[^"]|"")*+" )
  | (?P<open> [eE]?' | " | /\* | \$(?:[^\W\d]\w*)?\$ )
  | (?P<word> [^\W\d][\w$]* )
  | (?P<semicolon> ; )
  | (?P<other> \w+ | \S )
    """,
    re.VERBOSE | re.DOTALL,
)
_SQLITE = re.compile(
    r"""
    (?P<comment> --[^\n]* | /\*.*?\*/ )
  | (?P<string> '(?:[^']|'')*+' )
  | (?P<name> "(?:[^"]|"")*+" | `(?:[^`]|``)*+` | \[[^\]]*\] )
  | (?P<word> [^\W\d][\w$]* )
  | (?P<semicolon> ; )
  | (?P<open> ['"`\[] | /\* )
  | (?P<other> \w+ | \S )
    """,
    re.VERBOSE | re.DOTALL,
)
_NESTING = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class SqlToken:
    """One part of a statement: ``sql[start:end]``."""

    kind: Kind
    start: int
    end: int


def tokenize_sql(sql: str, dialect: Dialect) -> Iterator[SqlToken]:
    """Yield the parts of ``sql``; the last one is ``open`` where a quote or comment never ends."""
    pattern = _POSTGRESQL if dialect == "postgresql" else _SQLITE
    position = 0
    while found := pattern.search(sql, position):
        kind: Kind = found.lastgroup  # type: ignore[assignment]  # the names of the groups
        start, position = found.span()
        if kind == "open" and found[0] == "/*" and (end := _comment_end(sql, start, dialect)):
            kind, position = "comment", end
        yield SqlToken(kind, start, position)
        if kind == "open":
            return


def _comment_end(sql: str, start: int, dialect: Dialect) -> int:
    """Return where a comment ends that may hold others, 0 if nowhere."""
    depth = 0
    if dialect == "postgresql":
        for mark in _NESTING.finditer(sql, start):
            depth += 1 if mark[0] == "/*" else -1
            if not depth:
                return mark.end()
    return 0


_READING = frozenset({"select", "with", "values", "table"})
# A read-only transaction stops no function: these reach files, other servers or sessions, run
# their argument as SQL, or outlive the statement. No complete list; the role's rights decide.
_FUNCTIONS = frozenset(
    {
        "pg_terminate_backend",
        "pg_cancel_backend",
        "pg_reload_conf",
        "pg_rotate_logfile",
        "pg_promote",
        "pg_switch_wal",
        "pg_create_restore_point",
        "pg_logical_emit_message",
        "pg_read_file",
        "pg_read_binary_file",
        "pg_stat_file",
        "pg_file_write",
        "pg_file_read",
        "pg_file_unlink",
        "pg_file_rename",
        "pg_file_sync",
        "pg_current_logfile",
        "pg_notify",
        "pg_read_server_files",
        "lo_import",
        "lo_export",
        "lo_creat",
        "lo_create",
        "lo_unlink",
        "lo_put",
        "lo_get",
        "lo_from_bytea",
        "lowrite",
        "loread",
        "set_config",
        "setseed",
        "query_to_xml",
        "query_to_xmlschema",
        "query_to_xml_and_xmlschema",
        "cursor_to_xml",
        "cursor_to_xmlschema",
        "ts_stat",
        "load_extension",
        "readfile",
        "writefile",
        "edit",
        "fts3_tokenizer",
    }
)
_FAMILIES = (
    "dblink",
    "pg_ls_",
    "pg_advisory_",
    "pg_try_advisory_",
    "pg_replication_",
    "pg_logical_slot_",
    "pg_backup_",
    "pg_wal_replay_",
    "database_to_xml",
    "schema_to_xml",
    "crosstab",
    "connectby",
)


def check_read_only(sql: str, parts: Sequence[SqlToken], dialect: Dialect) -> int:
    """Return the end of the statement, its closing semicolon left out.

    Raises InvalidInputError for none, two or an open one, ForbiddenError for one that may write
    or calls a function that reaches beyond the database.
    """
    if parts and parts[-1].kind == "open":
        raise InvalidInputError(
            "In the query something is opened and never closed: {excerpt}",
            hint="Close the quote or comment.",
            excerpt=sql[parts[-1].start :][:40],
        )
    code = [part for part in parts if part.kind != "comment"]
    stops = [number for number, part in enumerate(code) if part.kind == "semicolon"]
    if stops and len(code) > stops[0] + 1:
        raise InvalidInputError(
            "The query holds more than one statement.",
            hint="Leave only what follows: {excerpt}",
            excerpt=sql[: code[stops[0]].start].strip()[:80],
        )
    end = code[stops[0]].start if stops else len(sql)
    code = code[: stops[0]] if stops else code
    words = [sql[part.start : part.end].lower() for part in code]
    first = next((word for word in words if word != "("), "")
    if not first:
        raise InvalidInputError("The query is empty.", hint="Write a SELECT.")
    if first not in _READING:
        raise ForbiddenError(
            "The query begins with “{word}”.",
            hint="Sources only read: begin with {allowed}.",
            word=first.upper()[:40],
            allowed="SELECT, WITH, VALUES, TABLE",
        )
    _check_functions(words, code, dialect)
    return end


def _check_functions(words: Sequence[str], code: Sequence[SqlToken], dialect: Dialect) -> None:
    for number, (word, part) in enumerate(zip(words, code, strict=True)):
        if dialect == "postgresql" and word == "$" and words[number + 1 : number + 2]:
            after = words[number + 1]
            if after.isdigit() and code[number + 1].start == part.end:
                raise InvalidInputError(
                    "${number} in the query is a parameter without a value.",
                    hint="Write {example}.",
                    number=after,
                    example="{name}",
                )
        if part.kind not in ("word", "name") or words[number + 1 : number + 2] != ["("]:
            continue
        if word.startswith('u&"'):
            raise ForbiddenError(
                "The query calls a function by an encoded name: {name}",
                hint="Write the name in plain letters.",
                name=word[:40],
            )
        name = word.strip('"`[]')
        if name in _FUNCTIONS or name.startswith(_FAMILIES):
            raise ForbiddenError(
                "The function “{name}” may not be called in a source.",
                hint="It reaches beyond the rows of the database.",
                name=name,
            )
