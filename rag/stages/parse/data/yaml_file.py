"""Parser for YAML: values as they are written, with their paths and comments.

Nothing is built of it: anchors are not followed, and tags make no objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from rag.core.documents import ParsedDocument
from rag.stages.detect.decode import decode_text
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.data.tree import MAX_DEPTH, DataNode, TreeWriter, read_as_text

# Larger ones take the parser a minute.
_MAX_CHARS = 10_000_000
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_yaml_file(path: Path, name: str, encoding: str = "") -> ParsedDocument:
    """Return the documents of the file; what is no YAML is read as plain text and says so."""
    text, found = decode_text(path.read_bytes(), name, encoding)
    if len(text) > _MAX_CHARS:
        return read_as_text(path, name, encoding, "it is very large")
    canonical = CanonicalText()
    writer = TreeWriter(canonical)
    try:
        trees = list(_Builder(text).trees())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = str(getattr(error, "problem", "") or error).partition("\n")[0]
        where = f"line {mark.line + 1}: " if mark else ""
        return read_as_text(path, name, encoding, f"{where}{reason}")
    except RecursionError:
        return read_as_text(path, name, encoding, "it is nested too deeply")
    for tree in trees:
        writer.add_record(tree)
    canonical.warnings += writer.finish()
    return canonical.finish("yaml", "yaml/1", encoding=found)


class _Builder:
    """Trees from the events of a parser, one open container in another."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.splitlines()
        self._next_line = 0
        self._open: list[DataNode] = []
        self._keys: list[str | None] = []
        self._comments: list[str] = []
        self._last: DataNode | None = None

    def trees(self) -> Iterator[DataNode]:
        """Yield a tree for each document that holds anything."""
        root: DataNode | None = None
        events: Iterator[Any] = yaml.parse(self._text, Loader=_LOADER)
        for event in events:
            line, last_line = event.start_mark.line, event.end_mark.line
            if isinstance(event, yaml.CollectionEndEvent):
                self._open.pop()
                self._keys.pop()
            elif isinstance(event, yaml.DocumentEndEvent) and root is not None:
                self._end_document(line)
                yield root
                root = None
            elif isinstance(event, yaml.NodeEvent):
                is_key = self._is_key()
                self._note_comments(line)
                node = self._node(event)
                if is_key and not isinstance(event, yaml.CollectionStartEvent):
                    self._keys[-1] = node.text
                    self._next_line = last_line + 1
                    continue
                node.comments, self._comments = self._comments, []
                root = root or node
                self._place(node, event)

    def _end_document(self, end: int) -> None:
        """Let the comments below the last value follow it."""
        self._note_comments(end)
        if self._last is not None:
            self._last.text = "\n".join([self._last.text.rstrip("\n"), *self._comments])
            self._comments = []

    def _is_key(self) -> bool:
        return bool(self._open) and not self._open[-1].is_list and self._keys[-1] is None

    def _node(self, event: Any) -> DataNode:
        if isinstance(event, yaml.ScalarEvent):
            return DataNode(text=event.value)
        if isinstance(event, yaml.AliasEvent):
            return DataNode(text=f"*{event.anchor}")
        is_list = isinstance(event, yaml.SequenceStartEvent)
        return DataNode(is_list=is_list, is_numbered=is_list)

    def _place(self, node: DataNode, event: Any) -> None:
        """Put a value, or a container, below the one that is open."""
        if self._open:
            above = self._open[-1]
            if above.is_list:
                node.key = str(len(above.children) + 1)
            else:
                node.key, self._keys[-1] = self._keys[-1] or "?", None
            above.children.append(node)
        if isinstance(event, yaml.CollectionStartEvent):
            if len(self._open) >= MAX_DEPTH:
                raise RecursionError
            self._open.append(node)
            self._keys.append(None)
            return
        self._last = node
        self._next_line = event.end_mark.line + (event.end_mark.column > 0)
        rest = self._rest(event.end_mark)
        if rest.startswith("#"):
            node.text = f"{node.text}  {rest}"

    def _rest(self, mark: Any) -> str:
        line = self._lines[mark.line] if mark.line < len(self._lines) else ""
        return line[mark.column :].strip() if mark.column else ""

    def _note_comments(self, end: int) -> None:
        """Keep the lines of comments up to a line, for what stands below them."""
        between: Sequence[str] = self._lines[self._next_line : end]
        self._comments += [line.strip() for line in between if line.lstrip().startswith("#")]
        self._next_line = max(self._next_line, end)
