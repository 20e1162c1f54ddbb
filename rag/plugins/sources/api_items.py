"""Hits from a JSON answer by JMESPath expressions.

JMESPath and not JSONPath: one grammar with one test suite, and it shapes as well as it selects.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import jmespath
from django.utils.translation import gettext
from jmespath.exceptions import JMESPathError

from rag.core.errors import InvalidInputError, ProviderError, UnknownNameError
from rag.core.hits import Hit
from rag.core.sources import SourceResult
from rag.stages.sql.json_safe import json_safe

FIELDS = ("content", "title", "score", "id", "url", "content_type", "metadata")
_KINDS = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


@dataclass(slots=True)
class _Tally:
    n_empty: int = 0
    n_bad_urls: int = 0
    hits: list[Hit] = field(default_factory=list)


class ItemReader:
    """Picks the items out of an answer and maps their fields; expressions are read once."""

    def __init__(self, items: str, fields: Mapping[str, str], top_k: int) -> None:
        for name in fields:
            if name not in FIELDS:
                raise UnknownNameError("field", str(name), FIELDS)
        self._items = _compiled("items", items) if items else None
        self._fields = {name: _compiled(name, text) for name, text in fields.items()}
        self._top_k = top_k

    def read(self, body: bytes, content_type: str, *, host: str) -> SourceResult:
        """Return the hits in the order of the answer; ``host`` is what errors and hits name.

        Raises ProviderError for what is no JSON, for items that are no list, and for a field
        whose value has another type than the field.
        """
        try:
            items = self._picked(_parsed(body, content_type, host), host)
            tally = _Tally()
            for number, item in enumerate(items, 1):
                if len(tally.hits) == self._top_k:
                    break
                self._add(tally, item, number, host)
        except RecursionError:
            raise ProviderError(
                "The answer of {host} is nested too deeply.", hint="Ask for less.", host=host
            ) from None
        if items and not tally.hits:
            raise ProviderError(
                "Of the {n} items of {host} none has a content: {expression} selects nothing.",
                hint="Name the field that holds the text in fields.content.",
                n=len(items),
                host=host,
                expression=self._text_of("content"),
            )
        return SourceResult(tuple(tally.hits), tuple(self._notes(tally, len(items))))

    def _picked(self, payload: Any, host: str) -> list[Any]:
        if self._items is None:
            if isinstance(payload, (list, dict)):
                return payload if isinstance(payload, list) else [payload]
            raise ProviderError(
                "The answer of {host} is of type {kind}, neither array nor object.",
                hint="Check the address.",
                host=host,
                kind=_kind(payload),
            )
        picked = _searched("items", self._items, payload)
        expression = self._items.expression
        if picked is None:
            known = ", ".join(payload) if isinstance(payload, dict) else f"({_kind(payload)})"
            raise ProviderError(
                "“items” ({expression}) selects nothing in the answer of {host}.",
                hint="The answer has: {known}. Should nothing mean no hits, add {otherwise}.",
                expression=expression,
                host=host,
                known=known[:300],
                otherwise="|| `[]`",
            )
        if not isinstance(picked, list):
            raise ProviderError(
                "“items” ({expression}) selects a value of type {kind} from {host}, not an array.",
                hint="For a single item write {example}.",
                expression=expression,
                kind=_kind(picked),
                host=host,
                example=f"[{expression}]",
            )
        return picked

    def _add(self, tally: _Tally, item: Any, number: int, host: str) -> None:
        content = (
            self._value("content", item, number, (str,))
            if self._has("content")
            else _lines(item, number)
        )
        if not content or not content.strip():
            tally.n_empty += 1
            return
        metadata = dict(self._value("metadata", item, number, (dict,)) or {})
        url = self._value("url", item, number, (str,))
        if url and url.lower().startswith(("http://", "https://")):
            metadata["url"] = url
        elif url:
            tally.n_bad_urls += 1
        score = self._value("score", item, number, (int, float))
        hit = Hit(
            text=content,
            rank=len(tally.hits) + 1,
            score=None if score is None else float(score),
            file_name=self._label("title", item, number) or host,
            content_type=self._label("content_type", item, number) or "api",
            source="api",
            external_id=self._label("id", item, number),
            data=item if isinstance(item, dict) else None,
            metadata=metadata,
        )
        tally.hits.append(hit)

    def _has(self, name: str) -> bool:
        return name in self._fields

    def _label(self, name: str, item: Any, number: int) -> str:
        value = self._value(name, item, number, (str, int, float))
        return "" if value is None else str(value)

    def _value(self, name: str, item: Any, number: int, wanted: tuple[type, ...]) -> Any:
        if name not in self._fields:
            return None
        value = _searched(name, self._fields[name], item)
        if value is None or (isinstance(value, wanted) and not isinstance(value, bool)):
            return value
        raise ProviderError(
            "In item {number} the field “{name}” ({expression}) is of type {kind}, not {wanted}.",
            hint="JMESPath converts with to_string() and to_number().",
            number=number,
            name=name,
            expression=self._text_of(name),
            kind=_kind(value),
            wanted=_kind(wanted[-1]() if wanted[0] is not str else ""),
        )

    def _text_of(self, name: str) -> str:
        return str(self._fields[name].expression) if self._has(name) else name

    def _notes(self, tally: _Tally, n_items: int) -> list[str]:
        n_more = n_items - tally.n_empty - len(tally.hits)
        counted = (
            (tally.n_empty, gettext("{n} items without a content were left out.")),
            (tally.n_bad_urls, gettext("{n} urls were no web addresses and were left out.")),
            (n_more, gettext("{n} more items were left out (top_k is {top_k}).")),
        )
        return [note.format(n=n, top_k=self._top_k) for n, note in counted if n]


def _parsed(body: bytes, content_type: str, host: str) -> Any:
    charset = content_type.lower().partition("charset=")[2].partition(";")[0].strip(' "')
    try:
        text = body.decode(charset).removeprefix("\ufeff") if charset else body
        return json_safe(
            json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_bounded)
        )
    except (ValueError, LookupError):
        raise ProviderError(
            "{host} answered with something that is not JSON ({kind}, {n} bytes).",
            hint="Check the address, and that no login or error page is sent.",
            host=host,
            kind=content_type.partition(";")[0].strip()[:60] or "no type",
            n=len(body),
        ) from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)


def _bounded(digits: str) -> int:
    # What no float can hold would be no score either.
    return int(digits) if len(digits) <= 300 else _refuse(digits)


def _lines(item: Any, number: int) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, dict):
        return "\n".join(
            f"{key}: {one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)}"
            for key, one in item.items()
            if one is not None
        )
    raise ProviderError(
        "Item {number} is of type {kind}, neither string nor object.",
        hint="Let “items” select texts or objects.",
        number=number,
        kind=_kind(item),
    )


def _compiled(name: str, expression: object) -> Any:
    try:
        if not isinstance(expression, str):
            raise InvalidInputError("The JMESPath expression of “{name}” is no text.", name=name)
        return jmespath.compile(expression)
    except (JMESPathError, RecursionError) as error:
        raise _bad_expression(name, str(expression), error) from None


def _searched(name: str, compiled: Any, payload: Any) -> Any:
    try:
        return compiled.search(payload)
    except JMESPathError as error:
        raise _bad_expression(name, compiled.expression, error) from None


def _bad_expression(name: str, expression: str, error: Exception) -> InvalidInputError:
    reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(":. ")
    return InvalidInputError(
        "The JMESPath expression “{expression}” of “{name}” does not work: {reason}.",
        hint="JMESPath is described at {site}.",
        expression=expression[:200],
        name=name,
        reason=reason[:200],
        site="https://jmespath.org",
    )


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "expression")
