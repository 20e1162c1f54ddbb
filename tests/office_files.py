"""Files of old and of open office formats, as programs write them.

LibreOffice 7.4 made them of a Word, an Excel and a PowerPoint file (python-docx, openpyxl, python-pptx);
Chromium saved the page, extract-msg wrote the message.
"""

from __future__ import annotations

import zipfile
from functools import cache
from pathlib import Path


@cache
def office_file(name: str) -> bytes:
    """Return handbook.rtf, handbook.odt, sales.ods, sales.xls, slides.odp, slides.ppt, ..."""
    with zipfile.ZipFile(Path(__file__).with_name("office_files.zip")) as bundle:
        return bundle.read(name)
