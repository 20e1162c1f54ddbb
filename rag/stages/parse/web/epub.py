"""Parser for EPUB ([EPUB 3.3]): chapters in reading order."""

from __future__ import annotations

import posixpath
import zipfile
import zlib
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

from rag.core.documents import Notice, ParsedDocument
from rag.stages.detect.file_errors import damaged_file, rights_protected_file
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.web.html import add_html, decode_html

# A book may list its cover as a chapter.
_NO_TEXT = ("image/", "audio/", "video/", "font/")
_ENCRYPTION = "META-INF/encryption.xml"


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
            chapters = _spine(opf, posixpath.dirname(opf_path))
            if not known.issuperset(chapters):
                canonical.warnings.append(Notice("A chapter of the book is missing from the file."))
            if not _locked(bundle, known).isdisjoint(chapters):
                raise rights_protected_file(name)
            for chapter in filter(known.__contains__, chapters):
                text, _ = decode_html(bundle.read(chapter), name)
                add_html(text, canonical)
        title = next((item.text or "" for item in opf.iter() if _is(item, "title")), "")
    except (
        ElementTree.ParseError,
        LookupError,
        ValueError,
        StopIteration,
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
    ) as error:
        raise damaged_file(name) from error
    return canonical.finish("epub", "epub/3", title=title)


def _spine(opf: ElementTree.Element, folder: str) -> list[str]:
    """Return the chapters' members in reading order, each once, without contents and pictures."""
    hrefs = {
        item.get("id", ""): _member(folder, item.get("href", ""))
        for item in opf.iter()
        if _is(item, "item")
        and "nav" not in item.get("properties", "").split()
        and not item.get("media-type", "").startswith(_NO_TEXT)
    }
    order = [item.get("idref", "") for item in opf.iter() if _is(item, "itemref")]
    return list(dict.fromkeys(hrefs[which] for which in order if which in hrefs))


def _member(folder: str, reference: str) -> str:
    return posixpath.normpath(posixpath.join(folder, unquote(reference)))


def _locked(bundle: zipfile.ZipFile, known: set[str]) -> set[str]:
    """Return the members that are encrypted; often these are fonts alone."""
    if _ENCRYPTION not in known:
        return set()
    root = ElementTree.fromstring(bundle.read(_ENCRYPTION))
    return {
        _member("", item.get("URI", "")) for item in root.iter() if _is(item, "CipherReference")
    }


def _is(element: ElementTree.Element, tag: str) -> bool:
    return element.tag.rpartition("}")[2] == tag
