"""PowerPoint preprocessing: slides in show order, with notes and alternative texts.

Parsers take slides by the names of their parts, which keep the order in which they were made, and
know neither what a speaker notes nor what stands for a picture.
"""

from __future__ import annotations

import html
import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from rag.stages.parse.raised import raise_figures
from rag.stages.parse.relationships import Relationship, main_part, read_relationships

_PICTURE = re.compile(rb'<(?:\w+:)?nvPicPr>\s*<(?:\w+:)?cNvPr\b[^>]*?\sdescr="([^"]+)"')
_CELL = re.compile(rb"<((?:\w+:)?)tc\b.*?</\1tc>", re.S)
_LINE_BREAK = re.compile(rb"<((?:\w+:)?)br\b(?:[^>]*/>|.*?</\1br>)", re.S)
# A run that is raised or lowered, by a share of its size.
_BASELINE = re.compile(
    rb'(<(?:\w+:)?rPr\b[^>]*?\bbaseline="(-?)[1-9]\d*%?"(?:[^>]*/>|[^>]*>.{0,4000}?</(?:\w+:)?rPr>)\s*'
    rb"<(?:\w+:)?t>)([^<]*)",
    re.S,
)
# What a page of notes repeats: the slide, its number, the date.
_FURNITURE = frozenset({"sldImg", "sldNum", "dt", "hdr", "ftr"})


@dataclass(frozen=True, slots=True)
class PreprocessedPptx:
    """The rewritten file; by slide the texts for pictures, the notes, and the pictures' members."""

    data: bytes
    remarks: tuple[tuple[str, ...], ...]
    pictures: tuple[tuple[str, ...], ...] = ()


def preprocess_pptx(path: Path) -> PreprocessedPptx:
    """Return the show; raises ValueError, LookupError or ParseError when it is malformed."""
    with zipfile.ZipFile(path) as bundle:
        main = main_part(bundle, "ppt/presentation.xml")
        links = read_relationships(bundle, main)
        slides = list(dict.fromkeys(_slides(bundle, main, links)))
        remarks = tuple(tuple(_remarks(bundle, slide)) for slide in slides)
        pictures = tuple(tuple(_pictures(bundle, slide)) for slide in slides)
        return PreprocessedPptx(_repack(bundle, main, links, slides), remarks, pictures)


def _slides(bundle: zipfile.ZipFile, main: str, links: dict[str, Relationship]) -> Iterator[str]:
    """Yield the members that hold the slides, in the order in which they are shown."""
    for item in ElementTree.fromstring(bundle.read(main)).iterfind("{*}sldIdLst/{*}sldId"):
        # Its other id is a mere number.
        which = next((v for key, v in item.attrib.items() if key.endswith("}id")), "")
        if which in links and links[which].member in bundle.NameToInfo:
            yield links[which].member


def _remarks(bundle: zipfile.ZipFile, slide: str) -> Iterator[str]:
    for text in _PICTURE.findall(bundle.read(slide)):
        yield html.unescape(text.decode("utf-8", "replace"))
    for link in read_relationships(bundle, slide).values():
        if link.kind == "notesSlide" and link.member in bundle.NameToInfo:
            yield from _notes(ElementTree.fromstring(bundle.read(link.member)))


def _pictures(bundle: zipfile.ZipFile, slide: str) -> Iterator[str]:
    for link in read_relationships(bundle, slide).values():
        if link.kind == "image":
            yield link.member


def _notes(page: ElementTree.Element) -> Iterator[str]:
    for shape in page.iterfind(".//{*}sp"):
        holder = shape.find("{*}nvSpPr/{*}nvPr/{*}ph")
        if holder is None or holder.get("type") not in _FURNITURE:
            for paragraph in shape.iterfind("{*}txBody/{*}p"):
                yield "".join(_text(item) for item in paragraph)


def _text(run: ElementTree.Element) -> str:
    if run.tag.endswith("}br"):
        return "\n"
    return "".join(item.text or "" for item in run.iterfind("{*}t"))


def _repack(
    bundle: zipfile.ZipFile, main: str, links: dict[str, Relationship], slides: list[str]
) -> bytes:
    """Return a package of these slides, named by their order, without pictures."""
    folder = f"{posixpath.dirname(main)}/slides/"
    names = {old: f"{folder}slide{n}.xml" for n, old in enumerate(slides, start=1)}
    moved = {_links_of(old): _links_of(new) for old, new in names.items()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as package:
        for name in bundle.namelist():
            if name in names:
                slide = _BASELINE.sub(_raised, bundle.read(name))
                package.writestr(names[name], _CELL.sub(_on_one_line, slide))
            elif name in moved:
                package.writestr(moved[name], bundle.read(name))
            elif name == _links_of(main):
                package.writestr(name, _relinked(bundle.read(name), links, names))
            elif (
                not name.startswith(folder) and "/media/" not in name and "/embeddings/" not in name
            ):
                package.writestr(name, bundle.read(name))
    return out.getvalue()


def _on_one_line(cell: re.Match[bytes]) -> bytes:
    # A line break within a cell would begin a row.
    return _LINE_BREAK.sub(rb"<\1r><\1t> </\1t></\1r>", cell.group())


def _raised(run: re.Match[bytes]) -> bytes:
    position = "subscript" if run[2] else "superscript"
    return run[1] + raise_figures(run[3].decode("utf-8", "replace"), position).encode()


def _relinked(data: bytes, links: dict[str, Relationship], names: dict[str, str]) -> bytes:
    root = ElementTree.fromstring(data)
    for item in list(root):
        link = links.get(item.get("Id", ""))
        if link and link.member in names:
            item.set("Target", f"/{names[link.member]}")
        elif link and link.kind == "slide":
            root.remove(item)
    return ElementTree.tostring(root)


def _links_of(part: str) -> str:
    folder, name = posixpath.split(part)
    return posixpath.join(folder, "_rels", f"{name}.rels")
