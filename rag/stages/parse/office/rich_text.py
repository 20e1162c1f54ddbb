"""Parser for RTF and Works: LibreOffice where it is installed, else xberg for RTF."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rag.core.documents import Notice, ParsedDocument
from rag.core.errors import DocumentError
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.office.libreoffice import CONVERTED, converted, find_libreoffice
from rag.stages.parse.office.office import PARSER, add_nodes, parse_office, read_office

# What xberg loses without a word: raised figures, merged cells.
_LOST = (rb"\super", rb"\sub", rb"\up", rb"\dn", rb"\clvmrg")
_MAY_DIFFER = Notice(
    "Raised figures and merged cells of it may be wrong. Install LibreOffice on the server, or "
    "save it as .docx."
)


def parse_rich_text(path: Path, name: str, kind: str) -> ParsedDocument:
    """Return the text; raise DocumentError when it cannot be read here."""
    if office := find_libreoffice():
        with converted(office, path, name, suffix=f".{kind}", wanted="docx") as made:
            if made is not None:
                return replace(parse_office(made, name, "docx"), kind=kind, parser=CONVERTED)
    if kind == "wps":
        raise DocumentError(
            "“{name}” is of Microsoft Works and cannot be read here.",
            hint="Save it as .docx, or install LibreOffice on the server.",
            name=name,
        )
    data = path.read_bytes()
    content = read_office(data, "rtf", name)
    canonical = CanonicalText()
    canonical.warnings += content.warnings
    add_nodes(canonical, content.nodes, number_lists=True)
    if any(word in data for word in _LOST):
        canonical.warnings.append(_MAY_DIFFER)
    return canonical.finish("rtf", PARSER, title=content.title)
