"""SQL templates: ``{name}`` becomes a bound parameter; ``{{`` and ``}}`` are braces.

A value never becomes text of the statement.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from rag.core.errors import InvalidInputError
from rag.stages.sql.read_only import Dialect, SqlToken, check_read_only, tokenize_sql

MAX_CHARS = 20_000
_BRACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_IN_BEFORE = re.compile(r"(\bNOT\s+)?\bIN\s*(\(\s*)?\Z", re.IGNORECASE)
_IN_AFTER = re.compile(r"\s*\)")
_SCALARS = (str, int, float, Decimal, date, datetime, time, timedelta, UUID, bytes)
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_SHOWN_NAMES = 20


@dataclass(frozen=True, slots=True)
class _Slot:
    """A place for a value; ``is_in`` says that ``IN`` belongs to it, ``is_not`` that NOT does."""

    name: str
    is_in: bool = False
    is_not: bool = False


@dataclass(frozen=True, slots=True)
class SqlTemplate:
    """One statement that reads, cut at its places for values."""

    dialect: Dialect
    pieces: tuple[str | _Slot, ...]

    def bind(self, values: Mapping[str, Any]) -> tuple[str, list[Any]]:
        """Return the statement with ``%s`` (SQLite: ``?``) and the parameters in their order.

        A list after ``IN`` stands for its items, elsewhere for an array; a dict for its JSON.
        Raises InvalidInputError that names a value which is missing or cannot be bound.
        """
        text, parameters = [], []
        for piece in self.pieces:
            if isinstance(piece, str):
                text.append(piece.replace("%", "%%") if self.dialect == "postgresql" else piece)
                continue
            if piece.name not in values:
                known = ", ".join(sorted(map(str, values))[:_SHOWN_NAMES])
                raise InvalidInputError(
                    "The query needs “{name}”, which has no value.",
                    hint="Known: {known}.",
                    name=piece.name,
                    known=known or "none",
                )
            value = _plain(piece.name, values[piece.name])
            if piece.is_in:
                items = value if isinstance(value, list) else [value]
                marks, bound = self._members(piece, items)
            elif isinstance(value, list) and self.dialect == "sqlite":
                raise InvalidInputError(
                    "“{name}” is a list, which SQLite takes only after IN.",
                    hint="Write “IN {{{name}}}”.",
                    name=piece.name,
                )
            else:
                marks, bound = self._mark, [value]
            text.append(marks)
            parameters += bound
        return "".join(text), parameters

    @property
    def _mark(self) -> str:
        return "%s" if self.dialect == "postgresql" else "?"

    def _members(self, slot: _Slot, items: list[Any]) -> tuple[str, list[Any]]:
        # One array: no limit on its length, and an empty one is right after NOT too.
        if self.dialect == "postgresql":
            return ("<> ALL(%s)" if slot.is_not else "= ANY(%s)"), [items]
        marks = ", ".join("?" * len(items))
        return f"{'NOT ' if slot.is_not else ''}IN ({marks})", items


def parse_sql_template(template: str, *, dialect: Dialect) -> SqlTemplate:
    """Return the template, checked; raise InvalidInputError for what is refused.

    Refused are a placeholder that is not a plain name, stands inside of quotes or comments or
    touches a word, and any text that is not one single statement that reads.
    """
    if len(template) > MAX_CHARS:
        raise InvalidInputError(
            "The query has {n} characters.",
            hint="Allowed: {limit}.",
            n=len(template),
            limit=MAX_CHARS,
        )
    if _UNSTORABLE.search(template):
        raise InvalidInputError(
            "The query holds a NUL or half a character, which no database takes.",
            hint="Take it out.",
        )
    parts = list(tokenize_sql(template, dialect))
    end = check_read_only(template, parts, dialect)
    quoted = [part for part in parts if part.kind in ("string", "name", "comment")]
    return SqlTemplate(dialect, tuple(_pieces(template[:end], quoted)))


def _pieces(sql: str, quoted: Sequence[SqlToken]) -> Iterator[str | _Slot]:
    text, position, fresh = "", 0, 0
    for found in _BRACE.finditer(sql):
        text += sql[position : found.start()]
        position = max(position, found.end())
        if found[0] in ("{{", "}}"):
            text += found[0][0]
            continue
        around = [part for part in quoted if part.start < found.start() < part.end]
        name = _name(sql, found, around)
        # Only the code right before decides whether IN belongs to it.
        fresh = max([fresh, *(part.end for part in quoted if part.end <= found.start())])
        before = _IN_BEFORE.search(sql[fresh : found.start()])
        after = _IN_AFTER.match(sql, found.end())
        if before and (after or not before[2]):
            text = text[: len(text) - len(before[0])]
            position = after.end() if after and before[2] else position
            slot = _Slot(name, is_in=True, is_not=bool(before[1]))
        else:
            slot = _Slot(name)
        if text:
            yield text
        yield slot
        text, fresh = "", position
    yield text + sql[position:]


def _name(sql: str, found: re.Match[str], around: Sequence[SqlToken]) -> str:
    place, name = found[0], found[1]
    if name is None or not name.isidentifier():
        raise InvalidInputError(
            "“{place}” in the query is no name in braces.",
            hint="Write a plain name such as {example}; braces of the SQL are doubled: {twice}.",
            place=place,
            example="{user_query}",
            twice="{{ }}",
        )
    if around and around[0].kind == "comment":
        raise InvalidInputError(
            "{place} stands inside of a comment, where no value can be bound.",
            hint="Take it out, or double its braces.",
            place=place,
        )
    if around:
        raise InvalidInputError(
            "{place} stands inside of quotes, where no value can be bound.",
            hint="Take it out: values need no quotes, and parts of texts are joined with ||.",
            place=place,
        )
    touching = sql[max(found.start() - 1, 0) : found.start()] + sql[found.end() : found.end() + 1]
    if any(c.isalnum() or c in "_$'\"`{}" for c in touching):
        raise InvalidInputError(
            "{place} touches what stands beside it.",
            hint="A value is a whole word: put spaces around it. It cannot be part of a name.",
            place=place,
        )
    return name


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, _SCALARS):
        # No database holds such characters, and drivers fail on them.
        return _UNSTORABLE.sub("\ufffd", value) if isinstance(value, str) else value
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(name, item) for item in value]
    if isinstance(value, Mapping):
        try:
            return _plain(name, json.dumps(value, ensure_ascii=False, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInputError(
                "The value “{name}” cannot be written as JSON.", name=name
            ) from error
    raise InvalidInputError(
        "The value “{name}” is of type {kind}, which no database takes.",
        hint="Texts, numbers, dates and lists of them can be bound.",
        name=name,
        kind=type(value).__name__,
    )
