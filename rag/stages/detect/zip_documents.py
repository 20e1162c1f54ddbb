"""Zip-based documents of other programs: told by what is in them, refused and never unpacked."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import PurePath

from rag.core.errors import DocumentError

# Entries that a program's files have, all of a row.
_MARKS = (
    ("OFD", ("OFD.xml",)),
    ("Visio", ("visio/document.xml",)),
    ("XMind", ("content.json", "metadata.json")),
    ("XMind", ("content.xml", "meta.xml", "META-INF/manifest.xml")),
    ("iWork", ("Index/Document.iwa",)),
    ("iWork", ("Index.zip",)),
    ("iWork", ("index.apxl",)),
    ("iWork", ("index.xml", "buildVersionHistory.plist")),
)
_SUFFIXES = {
    ".ofd": "OFD",
    ".xmind": "XMind",
    ".vsdx": "Visio",
    ".vsdm": "Visio",
    ".vstx": "Visio",
    ".vssx": "Visio",
    ".pages": "Pages",
    ".key": "Keynote",
    ".numbers": "Numbers",
}
_IWORK = ("Pages", "Keynote", "Numbers")
_BUNDLES = ("", ".zip")


def program_of_zip(entries: Collection[str], name: str) -> str:
    """Return the program that wrote a zip-based document, empty for any other zip.

    The content decides; the name tells the three programs of iWork apart.
    """
    found = next((who for who, marks in _MARKS if all(one in entries for one in marks)), "")
    named = _SUFFIXES.get(PurePath(name).suffix.lower(), "")
    if found == "iWork":
        return named if named in _IWORK else "Pages, Keynote or Numbers"
    return found


def is_bundle_name(name: str) -> bool:
    """Return whether a zip of this name holds documents to unpack, and is none itself."""
    return PurePath(name).suffix.lower() in _BUNDLES


def refused_zip(entries: Collection[str], name: str) -> DocumentError:
    """Return the refusal of a zip that is no document that is read here."""
    if program := program_of_zip(entries, name):
        return DocumentError(
            "“{name}” is a document of {program}, which is not read here.",
            hint="Save it as PDF and upload that.",
            name=name,
            program=program,
        )
    if named := _SUFFIXES.get(PurePath(name).suffix.lower(), ""):
        return DocumentError(
            "“{name}” is a zip and not the document of {program} that its name says.",
            hint="Open it, save it as PDF and upload that.",
            name=name,
            program=named,
        )
    return DocumentError(
        "“{name}” is a zip, not a document.", hint="Unpack it and upload the documents.", name=name
    )
