"""Content that a Word file takes from a file inside of it (altChunk, [ECMA-376] 17.17.2)."""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from rag.core.documents import ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.detect.decode import decode_text
from rag.stages.detect.sniff import sniff_kind
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.relationships import main_part, read_relationships
from rag.stages.parse.web.html import add_html, decode_html

MAX_BYTES = 16 * 1024**2


def read_foreign(bundle: zipfile.ZipFile, which: str) -> ParsedDocument | bytes | None:
    """Return what stands in a part by its relationship: a page or text, or a Word file's bytes.

    None for what is of another kind, too large or not there.
    """
    links = read_relationships(bundle, main_part(bundle, "word/document.xml"))
    member = links[which].member if which in links else ""
    if member not in bundle.NameToInfo or bundle.getinfo(member).file_size > MAX_BYTES:
        return None
    data, name = bundle.read(member), PurePosixPath(member).name
    with TemporaryDirectory() as folder:
        path = Path(folder) / "part"
        path.write_bytes(data)
        try:
            kind = sniff_kind(path, name)
            if kind == "docx":
                return data
            canonical = CanonicalText()
            if kind == "html":
                add_html(decode_html(data, name)[0], canonical)
            elif kind in ("txt", "md"):
                canonical.add("paragraph", decode_text(data, name)[0])
            return canonical.finish(kind, "") if kind in ("html", "txt", "md") else None
        except DocumentError:
            return None
