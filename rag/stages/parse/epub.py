"""EPUB ([EPUB 3.3]). In: a file. Out: its chapters in reading order."""

from __future__ import annotations

import posixpath
import zipfile
import zlib
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

from rag.core.documents import Notice, ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.html import add_html, decode_html


def parse_epub(path: Path, name: str) -> ParsedDocument:
    """Return the book's text; a missing chapter is warned of. Raises DocumentError when damaged."""
    canonical = CanonicalText()
    try:
        with zipfile.ZipFile(path) as bundle:
            known = set(bundle.namelist())
            container = ElementTree.fromstring(bundle.read("META-INF/container.xml"))
            opf_path = next(
                item.get("full-path", "") for item in container.iter() if _is(item, "rootfile")
            )
            opf = ElementTree.fromstring(bundle.read(opf_path))
            for chapter in _spine(opf, posixpath.dirname(opf_path)):
                if chapter not in known:
                    canonical.warnings.append(
                        Notice("A chapter of the book is missing from the file.")
                    )
                    continue
                text, _ = decode_html(bundle.read(chapter), name)
                add_html(text, canonical)
        title = next((item.text or "" for item in opf.iter() if _is(item, "title")), "")
    except (
        ElementTree.ParseError, KeyError, StopIteration, zipfile.BadZipFile, zlib.error, EOFError
    ) as error:  # fmt: skip
        raise DocumentError(
            "“{name}” is damaged.", hint="Open it, save it anew and upload that.", name=name
        ) from error
    return canonical.finish("epub", "epub/1", title=title)


def _spine(opf: ElementTree.Element, folder: str) -> list[str]:
    """Return the chapters' members in reading order, without the table of contents."""
    hrefs = {
        item.get("id", ""): posixpath.normpath(
            posixpath.join(folder, unquote(item.get("href", "")))
        )
        for item in opf.iter()
        if _is(item, "item") and "nav" not in item.get("properties", "").split()
    }
    order = [item.get("idref", "") for item in opf.iter() if _is(item, "itemref")]
    return [hrefs[which] for which in order if which in hrefs]


def _is(element: ElementTree.Element, tag: str) -> bool:
    return element.tag.rpartition("}")[2] == tag
