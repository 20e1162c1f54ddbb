"""Parser for PowerPoint 97 to 2003: LibreOffice where it is installed, else xberg."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rag.core.documents import Notice, ParsedDocument
from rag.stages.parse.office.libreoffice import CONVERTED, converted, find_libreoffice
from rag.stages.parse.office.office import parse_office, slides_document

_NO_TABLES = Notice(
    "Cells of tables stand one below the other. Install LibreOffice with Impress on the server, "
    "or save it as .pptx."
)


def parse_ppt(path: Path, name: str) -> ParsedDocument:
    """Return the slides; raise DocumentError when neither way reads it."""
    if office := find_libreoffice():
        # Impress may be lacking: Writer alone makes no slides.
        with converted(office, path, name, suffix=".ppt", wanted="pptx") as made:
            if made is not None:
                return replace(parse_office(made, name, "pptx"), kind="ppt", parser=CONVERTED)
    document = slides_document(path, name)
    return replace(document, warnings=(*document.warnings, _NO_TABLES))
