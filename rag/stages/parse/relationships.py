"""Office package relationships ([ECMA-376] part 2): members of a package by type."""

from __future__ import annotations

import posixpath
import zipfile
from dataclasses import dataclass
from xml.etree import ElementTree


@dataclass(frozen=True, slots=True)
class Relationship:
    """Where a part points to: the last word of the link's type, and a member of the package."""

    kind: str
    member: str


def read_relationships(bundle: zipfile.ZipFile, part: str = "") -> dict[str, Relationship]:
    """Return the links of a part by id, of the package itself without one, in order.

    Addresses outside of the package are left out. Raises ParseError when they are malformed.
    """
    folder, name = posixpath.split(part)
    at = posixpath.join(folder, "_rels", f"{name}.rels")
    if at not in bundle.NameToInfo:
        return {}
    return {
        item.get("Id", ""): Relationship(
            item.get("Type", "").rpartition("/")[2],
            posixpath.normpath(posixpath.join("/", folder, item.get("Target", ""))).lstrip("/"),
        )
        for item in ElementTree.fromstring(bundle.read(at))
        if item.get("TargetMode") != "External"
    }


def main_part(bundle: zipfile.ZipFile, usual: str) -> str:
    """Return the name of the part that holds the document; some services call it document2.xml."""
    links = read_relationships(bundle).values()
    found = (link.member for link in links if link.kind == "officeDocument")
    return next((name for name in found if name in bundle.NameToInfo), usual)
