"""Parser for XML: elements and attributes with their paths; entities are never expanded."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from rag.core.documents import ParsedDocument
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.data.tree import MAX_DEPTH, DataNode, TreeWriter, read_as_text
from rag.stages.parse.web.html import decode_html

_ENTITY = re.compile(r"<!ENTITY", re.I)
_BLANK = re.compile(r"\s+")


def parse_xml_file(path: Path, name: str, encoding: str = "") -> ParsedDocument:
    """Return the elements; what is no XML, or declares entities, is read as plain text."""
    text, found = decode_html(path.read_bytes(), name, encoding)
    if _ENTITY.search(text):
        return read_as_text(path, name, encoding, "it declares entities")
    target = _Target()
    parser = ElementTree.XMLParser(target=target)
    try:
        parser.feed(text.lstrip("\ufeff \t\r\n"))
        parser.close()
    except ElementTree.ParseError as error:
        return read_as_text(path, name, encoding, str(error))
    except RecursionError:
        return read_as_text(path, name, encoding, "it is nested too deeply")
    canonical = CanonicalText()
    writer = TreeWriter(canonical)
    if target.root is not None:
        root = DataNode(children=[target.root], is_list=True)
        writer.add_record(root)
    canonical.warnings += writer.finish()
    return canonical.finish("xml", "xml/1", encoding=found)


class _Target:
    """Builds a tree of values while the file is read; text amid elements makes one text of all."""

    def __init__(self) -> None:
        self.root: DataNode | None = None
        self._open: list[tuple[DataNode, list[str], list[bool]]] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise RecursionError
        node = DataNode(_local(tag))
        node.children = [DataNode(f"@{_local(one)}", held) for one, held in attributes.items()]
        self._open.append((node, [], [False]))

    def data(self, text: str) -> None:
        _, parts, is_mixed = self._open[-1]
        parts.append(text)
        is_mixed[0] = is_mixed[0] or not text.isspace()

    def end(self, tag: str) -> None:
        node, parts, is_mixed = self._open.pop()
        text = _plain("".join(parts))
        if is_mixed[0]:
            node.text = text
            node.children = [child for child in node.children if child.key.startswith("@")]
        keys = Counter(child.key for child in node.children if child.children)
        node.is_list = any(n > 1 for n in keys.values())
        if not self._open:
            self.root = node
            return
        above, outer, _ = self._open[-1]
        # Elements amid a text are a part of it; those that hold others stand apart.
        outer.append(f" {text} " if node.children else text)
        above.children.append(node)

    def close(self) -> None: ...


def _plain(text: str) -> str:
    return _BLANK.sub(" ", text).strip() if "\n\n" not in text else text.strip()


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
