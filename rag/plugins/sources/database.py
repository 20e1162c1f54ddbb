"""Data source ``database``: an SQL template with bound values, one hit per row.

Read only, on every level that there is: checked words, a read-only transaction, a cursor that can
only select. Functions are beyond it: give the alias a role with few rights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.utils.connection import ConnectionDoesNotExist
from django.utils.translation import gettext, gettext_noop

from rag.conf import conf
from rag.core.errors import ConfigurationError, InvalidInputError, UnknownNameError
from rag.core.hits import Hit
from rag.core.options import option
from rag.core.plugins import register
from rag.core.sources import SourceQuery, SourceResult
from rag.plugins.rows.postgres import postgres_rows
from rag.plugins.rows.sqlite import sqlite_rows
from rag.stages.sql.json_safe import json_safe
from rag.stages.sql.template import parse_sql_template

# Vendors whose reading was tried against writing; on others nothing is promised, so nothing is run.
_READERS = {"postgresql": postgres_rows, "sqlite": sqlite_rows}
_COLUMNS = ("content_column", "title_column", "score_column", "id_column")


@register("source")
class DatabaseSource:
    """Reads rows with SQL over a database that the installation allows."""

    name = "database"
    label = gettext_noop("Database")
    hosts = ()

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """What a data source of this type is told."""

        query_template: str = option(
            help="One SELECT; {name} stands for a value, which is bound and never becomes SQL."
        )
        database: str = option(
            "", help="Name of an allowed database; may be left out where there is only one."
        )
        max_rows: int = option(100, help="Maximum rows kept.", minimum=1, maximum=10_000)
        max_bytes: int = option(
            1_000_000, help="Maximum bytes of rows kept, as JSON.", minimum=1, maximum=100_000_000
        )
        content_column: str = option("", help="Column that is the text; none: all columns.")
        title_column: str = option("", help="Column that names a row for people.")
        score_column: str = option("", help="Column with a number that ranks the row.")
        id_column: str = option("", help="Column that identifies the row.")
        content_type: str = option("row", help="What a row is called, such as patient.")

    def __init__(self, options: Options) -> None:
        self._options = options
        self._alias = _allowed(options.database)
        self._vendor = _vendor(self._alias)
        self._template = parse_sql_template(options.query_template, dialect=self._vendor)

    def retrieve(self, query: SourceQuery) -> SourceResult:
        """Return the rows in the order of the database; see the readers for what is raised."""
        values = {"user_query": query.text, **query.values}
        sql, parameters = self._template.bind(values)
        found = _READERS[self._vendor](self._alias, sql, parameters, deadline=query.deadline)
        hits: list[Hit] = []
        note, n_bytes = "", 0
        with closing(found) as rows:
            for row in rows:
                if len(hits) == self._options.max_rows:
                    note = gettext("Only the first {n} rows were kept.")
                    break
                data = json_safe(row)
                n_bytes += len(json.dumps(data, ensure_ascii=False).encode())
                if n_bytes > self._options.max_bytes:
                    note = gettext("Only the first {n} rows were kept, within {limit} bytes.")
                    break
                hits.append(self._hit(data, len(hits) + 1))
        note = note.format(n=len(hits), limit=f"{self._options.max_bytes:,}")
        return SourceResult(tuple(hits), (note,) if note else ())

    def _hit(self, data: Mapping[str, Any], rank: int) -> Hit:
        options = self._options
        for name in _COLUMNS:
            column = getattr(options, name)
            if column and column not in data:
                raise UnknownNameError(f"column ({name})", column, data)
        score = data.get(options.score_column)
        if score is not None and (isinstance(score, bool) or not isinstance(score, (int, float))):
            raise InvalidInputError(
                "The column “{column}” does not hold numbers but {value}.",
                hint="Choose another score_column.",
                column=options.score_column,
                value=repr(score),
            )
        content = data.get(options.content_column)
        identity = data.get(options.id_column)
        return Hit(
            text=_readable(content) if content is not None else _table(data),
            rank=rank,
            score=score,
            file_name=_readable(data.get(options.title_column)) or self._alias,
            content_type=options.content_type,
            source=self.name,
            external_id=_readable(identity),
            data=data,
        )


def _allowed(name: str) -> str:
    known = conf().source_databases
    if not known:
        # Not the server's fault: whoever asked named a database, and none may be read.
        raise InvalidInputError(
            "No database may be read by sources.",
            hint="Name one in {setting}.",
            setting="RAG_SOURCE_DATABASES",
        )
    if not name and len(known) == 1:
        return known[0]
    if name not in known:
        raise UnknownNameError("source database", name, known)
    return name


def _vendor(alias: str) -> Literal["postgresql", "sqlite"]:
    try:
        vendor: str = connections[alias].vendor
    except (ConnectionDoesNotExist, ImproperlyConfigured) as error:
        raise ConfigurationError(
            "The database “{alias}” cannot be used: {reason}.",
            hint="Check {setting}.",
            alias=alias,
            reason=error,
            setting="RAG_SOURCE_DATABASES",
        ) from error
    if vendor == "postgresql":
        return "postgresql"
    if vendor == "sqlite":
        return "sqlite"
    raise ConfigurationError(
        "The database “{alias}” is of the kind {vendor}, for which reading only cannot be assured.",
        hint="Use one of: {known}.",
        alias=alias,
        vendor=vendor,
        known=", ".join(_READERS),
    )


def _table(data: Mapping[str, Any]) -> str:
    known = {column: value for column, value in data.items() if value is not None}
    lines = [f"{column}: {_readable(value)}" for column, value in known.items()]
    return "\n".join(lines or [f"{column}: null" for column in data])


def _readable(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
