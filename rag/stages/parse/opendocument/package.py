"""OpenDocument package: names of elements, text of paragraphs, and the styles that show in it."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

from rag.stages.parse.raised import raise_figures

# What stands in a paragraph and is no part of its line.
_APART = frozenset({"annotation", "note", "text-box", "tracked-changes", "ruby-text", "notes"})
_MAX_DEPTH, _MAX_BLANKS, _MAX_PARENTS = 60, 200, 20


def local(item: ElementTree.Element) -> str:
    """Return the name of an element without its namespace."""
    return item.tag.rpartition("}")[2] if isinstance(item.tag, str) else ""


def attribute(item: ElementTree.Element, name: str) -> str:
    """Return an attribute by its name without the namespace, empty where there is none."""
    return next((value for key, value in item.items() if key.rpartition("}")[2] == name), "")


@dataclass(slots=True)
class OdfStyles:
    """What styles show: raised figures, labels of lists and of headings, titles."""

    parents: dict[str, str] = field(default_factory=dict)
    positions: dict[str, str] = field(default_factory=dict)
    lists: dict[str, dict[int, ElementTree.Element]] = field(default_factory=dict)
    outline: dict[int, ElementTree.Element] = field(default_factory=dict)

    def add(self, root: ElementTree.Element) -> None:
        """Take in the styles of a part."""
        for item in root.iter():
            tag = local(item)
            if tag == "style":
                name = attribute(item, "name")
                self.parents[name] = attribute(item, "parent-style-name")
                for one in item:
                    if position := attribute(one, "text-position").partition(" ")[0]:
                        self.positions[name] = position
            elif tag == "list-style":
                self.lists[attribute(item, "name")] = _levels(item)
            elif tag == "outline-style":
                self.outline = _levels(item)

    def is_title(self, name: str) -> bool:
        """Return whether a paragraph's style is that of a document's title."""
        for _ in range(_MAX_PARENTS):
            if name == "Title":
                return True
            name = self.parents.get(name, "")
        return False

    def position(self, name: str) -> str:
        """Return superscript, subscript or nothing."""
        held = self.positions.get(name, "")
        if held in ("super", "sub"):
            return f"{held}script"
        if held.startswith("-"):
            return "subscript"
        return "superscript" if held[:1].isdigit() and held != "0%" else ""


def _levels(item: ElementTree.Element) -> dict[int, ElementTree.Element]:
    return {int(attribute(one, "level") or 1): one for one in item}


def plain_text(item: ElementTree.Element, styles: OdfStyles | None = None) -> str:
    """Return the line of a paragraph, without what stands apart from it."""
    return "".join(_parts(item, styles, 0)).strip()


def _parts(item: ElementTree.Element, styles: OdfStyles | None, depth: int) -> Iterator[str]:
    tag = local(item)
    if tag in _APART:
        return
    if tag == "s":
        yield " " * min(int(attribute(item, "c") or 1), _MAX_BLANKS)
    elif tag in ("tab", "line-break"):
        yield "\t" if tag == "tab" else "\n"
    elif depth > _MAX_DEPTH:
        yield "".join(item.itertext())
        return
    inner = [item.text or ""]
    for child in item:
        inner += [*_parts(child, styles, depth + 1), child.tail or ""]
    text = "".join(inner)
    if styles is not None and tag == "span":
        text = raise_figures(text, styles.position(attribute(item, "style-name")))
    yield f"{text}\n" if depth and tag in ("p", "h", "list-item") else text


def read_parts(path: Path) -> tuple[ElementTree.Element, list[ElementTree.Element]]:
    """Return the content and the styles, which are one where the file is flat XML."""
    if not zipfile.is_zipfile(path):
        root = ElementTree.parse(path).getroot()
        return root, [root]
    with zipfile.ZipFile(path) as bundle:
        root = ElementTree.fromstring(bundle.read("content.xml"))
        if "styles.xml" not in bundle.NameToInfo:
            return root, [root]
        return root, [ElementTree.fromstring(bundle.read("styles.xml")), root]


@contextmanager
def open_part(path: Path, part: str) -> Iterator[IO[bytes]]:
    """Lend a part as a stream, empty where there is none; a flat file is all parts in one."""
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            yield file
        return
    with zipfile.ZipFile(path) as bundle:
        if part not in bundle.NameToInfo:
            yield BytesIO()
            return
        with bundle.open(part) as file:
            yield file


def read_title(path: Path) -> str:
    """Return the title in the file's properties."""
    with open_part(path, "meta.xml") as part:
        try:
            for _, item in ElementTree.iterparse(part):
                if local(item) == "title":
                    return item.text or ""
                if local(item) == "meta":
                    break
        except ElementTree.ParseError:
            pass
    return ""
