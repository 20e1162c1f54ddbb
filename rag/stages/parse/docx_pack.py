"""Word package writer: an edited body packed into a valid .docx."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import PurePosixPath

_NUMBERED = re.compile(rb"<((?:\w+:)?)numPr\b[^>]*?(?:/>|>.*?</\1numPr>)", re.S)


def pack_docx(bundle: zipfile.ZipFile, main: str, body: bytes) -> bytes:
    """Return the package with this body as word/document.xml, without pictures."""
    old, new = PurePosixPath(main).name.encode(), b"document.xml"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as package:
        for member in bundle.infolist():
            name = member.filename
            if name == main:
                package.writestr("word/document.xml", body)
            elif PurePosixPath(name).name == "styles.xml":
                package.writestr(name, _NUMBERED.sub(b"", bundle.read(name)))
            elif name in ("[Content_Types].xml", "_rels/.rels"):
                package.writestr(name, bundle.read(name).replace(old, new))
            elif name.endswith(f"_rels/{PurePosixPath(main).name}.rels"):
                package.writestr("word/_rels/document.xml.rels", bundle.read(name))
            elif "/media/" not in name and "/embeddings/" not in name:
                package.writestr(member, bundle.read(name))
    return out.getvalue()
