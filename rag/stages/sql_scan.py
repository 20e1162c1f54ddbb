"""SQL cut into its lexical parts, so that quotes and comments are known for what they are.

In: SQL text. Out: its parts in order, white space left out. Written for this because sqlparse
takes a backslash for an escape in plain strings and ends a nested comment too early.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

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
class SqlPart:
    """One part of a statement: ``sql[start:end]``."""

    kind: Kind
    start: int
    end: int


def scan_sql(sql: str, dialect: Dialect) -> Iterator[SqlPart]:
    """Yield the parts of ``sql``; the last one is ``open`` where a quote or comment never ends."""
    pattern = _POSTGRESQL if dialect == "postgresql" else _SQLITE
    position = 0
    while found := pattern.search(sql, position):
        kind: Kind = found.lastgroup  # type: ignore[assignment]  # the names of the groups
        start, position = found.span()
        if kind == "open" and found[0] == "/*" and (end := _comment_end(sql, start, dialect)):
            kind, position = "comment", end
        yield SqlPart(kind, start, position)
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
