"""Metadata filter to SQL: a condition that loses no file that the filter's test would pass.

It may let through too much: lists of lists, truth values and the last digits of numbers are left to
the test itself, which whoever asks runs on what comes back.
"""

from __future__ import annotations

from decimal import Decimal
from math import isfinite
from typing import Any

from django.db.models import BooleanField
from django.db.models.expressions import RawSQL

from rag.stages.ranking.metadata_filter import BooleanTest, Comparison, MetadataTest

_Condition = tuple[str, list[Any]]
_HELD = "(rag_file.metadata -> %s::text)"
_TEXT = '((rag_file.metadata ->> %s::text) COLLATE "C")'
_NUMBER = "((rag_file.metadata ->> %s::text)::numeric)"
_BY_TYPE = f"""CASE jsonb_typeof({_HELD}) WHEN 'string' THEN {{text}} WHEN 'number' THEN {{number}}
  WHEN 'array' THEN {{array}} WHEN 'null' THEN false ELSE {_HELD} IS NOT NULL END"""
# A text of a list equals; what else a list may hold is looked at by the test.
_IN_LIST = f"""({_HELD} @> to_jsonb(%s::text) OR jsonb_path_exists({_HELD},
  'strict $[*] ? (@.type() != "string" && @.type() != "number")'))"""
# Python compares numbers as they are in memory, the database as they are written.
_SLACK = Decimal("1e-9")


def metadata_condition(test: MetadataTest) -> RawSQL | None:
    """Return a condition on ``rag_file`` that each row passes whose metadata pass ``test``.

    None where nothing can be said of them.
    """
    condition = _of(test)
    return condition and RawSQL(*condition, output_field=BooleanField())


def _of(test: MetadataTest) -> _Condition | None:
    if isinstance(test, Comparison):
        return _compared(test)
    if not isinstance(test, BooleanTest):
        return None
    parts = [_of(one) for one in test.tests]
    told = [part for part in parts if part is not None]
    if not told or (len(told) < len(parts) and not test.is_all):
        return None
    sign = " AND " if test.is_all else " OR "
    return f"({sign.join(sql for sql, _ in told)})", [one for _, values in told for one in values]


def _compared(test: Comparison) -> _Condition | None:
    key, wanted, is_unequal = test.key, test.wanted, str(test.sign == "!=").lower()
    if not _is_storable(key):
        return None
    if isinstance(wanted, str):
        if not _is_storable(wanted):
            return None
        sign = "<>" if test.sign == "!=" else test.sign
        array: _Condition = ("true", [])
        if test.sign == "=":
            array = _IN_LIST, [key, wanted, key]
        return _by_type(key, (f"{_TEXT} {sign} %s", [key, wanted]), (is_unequal, []), array)
    if not isfinite(wanted):
        return None
    return _by_type(key, (is_unequal, []), _near(test, Decimal(wanted)), ("true", []))


def _near(test: Comparison, wanted: Decimal) -> _Condition:
    slack = abs(wanted) * _SLACK
    low, high = wanted - slack, wanted + slack
    if test.sign == "=":
        return f"{_NUMBER} BETWEEN %s AND %s", [test.key, low, high]
    if test.sign == "!=":
        return "true", []
    if test.sign in ("<", "<="):
        return f"{_NUMBER} <= %s", [test.key, high]
    return f"{_NUMBER} >= %s", [test.key, low]


def _by_type(key: str, text: _Condition, number: _Condition, array: _Condition) -> _Condition:
    sql = _BY_TYPE.format(text=text[0], number=number[0], array=array[0])
    return sql, [key, *text[1], *number[1], *array[1], key]


def _is_storable(text: str) -> bool:
    """Return whether a text can stand in the database at all."""
    return "\0" not in text and not any("\ud800" <= sign <= "\udfff" for sign in text)
