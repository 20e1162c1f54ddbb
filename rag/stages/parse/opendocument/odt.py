"""Parser for OpenDocument texts and slides."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from rag.core.documents import ParsedDocument
from rag.stages.detect.file_errors import inconsistent_file
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.opendocument.body import OdfBody
from rag.stages.parse.opendocument.package import (
    OdfStyles,
    attribute,
    local,
    plain_text,
    read_parts,
    read_title,
)


def parse_odt(path: Path, name: str, kind: str) -> ParsedDocument:
    """Return the text of an odt or odp; raise DocumentError when the file is damaged."""
    canonical, styles = CanonicalText(), OdfStyles()
    try:
        root, parts = read_parts(path)
        for part in parts:
            styles.add(part)
        margins = [item for item in parts[0].iter() if local(item) in ("header", "footer")]
        held = root.find("{*}body")
        body = next(iter(held), None) if held is not None else None
        if body is None:
            raise inconsistent_file(name)
        if kind == "odp":
            _add_slides(canonical, styles, body)
        else:
            OdfBody(canonical, styles).add_all(body)
            for text in dict.fromkeys(plain_text(item, styles) for item in margins):
                canonical.add("paragraph", " ".join(text.split()))
        return canonical.finish(kind, "opendocument/1", title=read_title(path))
    except (ValueError, LookupError, ElementTree.ParseError) as error:
        raise inconsistent_file(name) from error


def _add_slides(canonical: CanonicalText, styles: OdfStyles, body: ElementTree.Element) -> None:
    """Add the slides with the remarks for their speaker; hidden ones too, as of PowerPoint."""
    for slide in body:
        if local(slide) != "page":
            continue
        titles = [one for one in slide if attribute(one, "class") == "title"]
        title = " ".join(" ".join(plain_text(box, styles) for box in _boxes(titles)).split())
        canonical.start_page(title)
        canonical.add("heading", title, 2)
        shown = ElementTree.Element("shown")
        shown.extend(one for one in slide if one not in titles)
        written = OdfBody(canonical, styles)
        written.add_all(shown)
        for notes in slide:
            if local(notes) == "notes":
                said = ElementTree.Element("said")
                said.extend(one for one in notes if attribute(one, "class") == "notes")
                written.add_all(said)


def _boxes(items: list[ElementTree.Element]) -> list[ElementTree.Element]:
    return [one for item in items for box in item.iter() if local(box) == "text-box" for one in box]
