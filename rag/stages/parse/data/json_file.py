"""Parser for JSON and JSON lines: each record whole, its values with their paths."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from json import JSONDecoder
from pathlib import Path
from typing import Any

from rag.core.documents import Notice, ParsedDocument
from rag.stages.detect.decode import decode_text
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.data.tree import MAX_DEPTH, DataNode, TreeWriter, read_as_text

PARSER = "json/1"
_SPACE = re.compile(r"[ \t\r\n\ufeff]*")
# Between values: their separator, or none where each has its line.
_BETWEEN = re.compile(r"[ \t\r\n,\x1e]*")
_MAX_BAD = 0.1


class _Pairs(list[tuple[str, Any]]):
    """An object as it is written: a key may come twice."""


# Numbers stay as they are written: 1.10 is a version, and a digit more is no number of Python's.
_DECODER = JSONDecoder(
    object_pairs_hook=_Pairs, parse_float=str, parse_int=str, parse_constant=str, strict=False
)


def parse_json_file(path: Path, name: str, kind: str, encoding: str = "") -> ParsedDocument:
    """Return the records; what is no JSON is read as plain text and says so."""
    text, found = decode_text(path.read_bytes(), name, encoding)
    canonical = CanonicalText()
    writer = TreeWriter(canonical)
    n_bad = 0
    try:
        if kind == "jsonl":
            n_bad = _add_lines(text, writer)
        else:
            _add_all(text, writer)
    except (ValueError, RecursionError) as error:
        return read_as_text(path, name, encoding, _reason(error))
    canonical.warnings += writer.finish()
    if n_bad:
        canonical.warnings.append(Notice("Lines that are no JSON, read as text: {n}.", n=n_bad))
    return canonical.finish(kind, PARSER, encoding=found)


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}: {error.msg}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _add_lines(text: str, writer: TreeWriter) -> int:
    """Add a record a line and return how many were none; raise ValueError where most are not."""
    n_bad = n_lines = 0
    for line in re.finditer(r"[^\r\n]+", text):
        if not line[0].strip():
            continue
        n_lines += 1
        try:
            node = _node("", _DECODER.decode(line[0].strip("\ufeff \t\x1e")))
        except (ValueError, RecursionError):
            n_bad += 1
            node = DataNode(text=line[0])
        writer.add_record(node)
    if n_bad > max(1, _MAX_BAD * n_lines) or n_bad == n_lines:
        raise ValueError("most of its lines are no JSON")
    return n_bad


def _add_all(text: str, writer: TreeWriter) -> None:
    """Add what a file holds: mostly one object or a list of records, or values in a row."""
    start = _SPACE.match(text).end()  # type: ignore[union-attr]
    if text[start : start + 1] == "[":
        for value in _items(text, start):
            writer.add_record(_node("", value))
        return
    at = start
    while at < len(text):
        value, at = _DECODER.raw_decode(text, at)
        writer.add_record(_node("", value))
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]


def _items(text: str, start: int) -> Iterator[Any]:
    """Yield the members of a list one by one: a hundred megabytes of them are too many at once."""
    at = _SPACE.match(text, start + 1).end()  # type: ignore[union-attr]
    is_first = True
    while text[at : at + 1] != "]":
        if not is_first:
            if text[at : at + 1] != ",":
                raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
            at = _SPACE.match(text, at + 1).end()  # type: ignore[union-attr]
        value, at = _DECODER.raw_decode(text, at)
        yield value
        at, is_first = _SPACE.match(text, at).end(), False  # type: ignore[union-attr]
    rest = _SPACE.match(text, at + 1).end()  # type: ignore[union-attr]
    if rest < len(text):
        raise json.JSONDecodeError("Extra data", text, rest)


def _node(key: str, value: Any, depth: int = 0) -> DataNode:
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, _Pairs) and value:
        return DataNode(key, children=[_node(one, held, depth + 1) for one, held in value])
    if isinstance(value, list) and value:
        held = [_node(str(n), one, depth + 1) for n, one in enumerate(value, 1)]
        return DataNode(key, children=held, is_list=True, is_numbered=True)
    return DataNode(key, _scalar(value))


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, _Pairs):
        return "{}"
    return json.dumps(value)
