"""Trees of data as text: records whole, each value with the path that leads to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rag.core.documents import Notice, ParsedDocument
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.text.plain import parse_plain

PACKED_NOTICE = "Values that are packed bytes are left out: {n}."
ARROW = " › "
# Characters: what fits a chunk and is written as a whole.
_FITS = 500
# Deeper values are told by the ends of their paths; deeper trees are no data of people.
_MAX_LEVELS, MAX_DEPTH = 12, 200
# A list of words stands on one line.
_SHORT_LIST = 200
# Pictures, keys and the like: letters that nobody reads.
_PACKED = re.compile(r"(?:data:[\w/+.;=-]+,)?[A-Za-z0-9+/=_\s-]{600,}")
_WORD = 100
# More records are written by the hundred: each block costs more than its text.
_MOST_BLOCKS, _MANY = 50_000, 100


@dataclass(slots=True)
class DataNode:
    """A value with its key: a text, children, or both.

    ``is_list``: its children with children of their own are records; ``is_numbered``: their keys
    are mere numbers. ``comments`` stand above it.
    """

    key: str = ""
    text: str = ""
    children: list[DataNode] = field(default_factory=list)
    is_list: bool = False
    is_numbered: bool = False
    comments: list[str] = field(default_factory=list)


class TreeWriter:
    """Adds trees to a canonical text: what fits as one block, larger ones below their path."""

    def __init__(self, canonical: CanonicalText) -> None:
        self._canonical = canonical
        self._heading: tuple[str, ...] = ()
        self._path: tuple[str, ...] = ()
        self._waiting: list[str] = []
        self._n_blocks = self._n_records = self._n_packed = 0

    def add_record(self, node: DataNode) -> None:
        """Add a record of the file, a block of its own where it fits."""
        self._n_records += 1
        is_whole = not node.children or _size(node) <= _FITS
        # What stands behind another record's path would be taken for a part of it.
        is_apart = bool(self._heading or self._path) or (self._n_records > 1 and not is_whole)
        path = (str(self._n_records),) if is_apart else ()
        if is_whole:
            self._write("\n".join(self._lines(node, ())), path)
        else:
            self._add_children(node, path)

    def finish(self) -> list[Notice]:
        """Write what is still open, and return what a reader should know."""
        self._close()
        if not self._n_packed:
            return []
        return [Notice(PACKED_NOTICE, n=self._n_packed)]

    def _add_children(self, node: DataNode, path: tuple[str, ...]) -> None:
        run: list[str] = []
        can_go_down = len(path) < _MAX_LEVELS
        large = {
            id(one) for one in node.children if one.children and can_go_down and _size(one) > _FITS
        }
        # Of an object first what has no path of its own, or it would stand behind another's.
        ordered = node.children
        if not node.is_list:
            ordered = sorted(node.children, key=lambda one: id(one) in large)
        for child in ordered:
            is_record = node.is_list and bool(child.children)
            if run and (is_record or id(child) in large or sum(map(len, run)) > _FITS):
                self._write("\n".join(run), path)
                run = []
            key = _one_line(child.key)
            if id(child) in large:
                self._add_children(child, (*path, key))
            elif is_record:
                prefix = () if node.is_numbered else (key,)
                self._write("\n".join(self._lines(child, prefix)), path)
            else:
                run += self._lines(child, (key,))
        self._write("\n".join(run), path)

    def _write(self, text: str, path: tuple[str, ...]) -> None:
        if path != self._path:
            self._close()
        self._path = path
        self._waiting += [text] if text.strip() else []
        if self._n_blocks < _MOST_BLOCKS or len(self._waiting) >= _MANY:
            self._close()

    def _close(self) -> None:
        if not self._waiting:
            return
        if self._path != self._heading:
            self._heading = self._path
            self._canonical.add("heading", ARROW.join(self._path), 2)
        self._canonical.add("code", "\n\n".join(self._waiting))
        self._n_blocks += 1
        self._waiting = []

    def _lines(self, node: DataNode, path: tuple[str, ...]) -> Iterator[str]:
        """Yield a line for each value: the path to it, and what it is."""
        waiting = [(node, path)]
        while waiting:
            node, path = waiting.pop()
            yield from node.comments
            if not node.children:
                yield _line(path, self._shown(node.text))
            elif _is_short_list(node):
                yield _line(path, ", ".join(child.text for child in node.children))
            else:
                if node.text:
                    yield _line(path, self._shown(node.text))
                below = [(child, (*path, _one_line(child.key))) for child in node.children]
                waiting += reversed(below)

    def _shown(self, text: str) -> str:
        if len(text) < _WORD * 6 or not _PACKED.fullmatch(text):
            return text
        if max(map(len, text.split())) < _WORD // 2:
            return text
        self._n_packed += 1
        return "…"


def _is_short_list(node: DataNode) -> bool:
    """Return whether it is a list of a few words."""
    if not node.is_numbered or any(one.children or one.comments for one in node.children):
        return False
    texts = [child.text for child in node.children]
    return sum(map(len, texts)) <= _SHORT_LIST and not any("\n" in text for text in texts)


def _size(node: DataNode) -> int:
    """Return about how many characters its lines have, or some number above what fits."""
    size, waiting = 0, [(node, 0)]
    while waiting and size <= _FITS:
        node, above = waiting.pop()
        above += len(node.key) + len(ARROW)
        size += len(node.text) + sum(map(len, node.comments)) + (0 if node.children else above)
        waiting += [(child, above) for child in node.children[: _FITS + 1]]
    return size


def _line(path: Sequence[str], text: str) -> str:
    if len(path) > _MAX_LEVELS:
        path = [*path[:2], "…", *path[-2:]]
    return f"{ARROW.join(path)}: {text}" if path else text


def _one_line(key: str) -> str:
    return " ".join(key.split())[:200]


def read_as_text(path: Path, name: str, encoding: str, reason: str) -> ParsedDocument:
    """Return a file of data as plain text, with a notice why."""
    document = parse_plain(path, name, "txt", encoding)
    notice = Notice("It is read as plain text: {reason}.", reason=reason)
    return replace(document, warnings=(notice, *document.warnings))
