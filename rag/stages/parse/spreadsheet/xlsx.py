"""Parser for Excel: each sheet a page, its values as Excel shows them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from xml.etree import ElementTree

from rag.core.documents import ParsedDocument
from rag.stages.detect.file_errors import inconsistent_file
from rag.stages.parse.spreadsheet.sheet import read_comments, read_sheet
from rag.stages.parse.spreadsheet.sheets_text import SheetsText
from rag.stages.parse.spreadsheet.workbook import read_workbook

PARSER = "sheets/2"


def parse_xlsx(path: Path, name: str, *, with_hidden: bool = False) -> ParsedDocument:
    """Return the sheets' titles and tables; raise DocumentError when the file is damaged.

    ``with_hidden`` takes in, and marks, hidden sheets, rows and columns, and comments.
    """
    written = SheetsText(with_hidden=with_hidden)
    try:
        with zipfile.ZipFile(path) as bundle:
            book = read_workbook(bundle)
            for sheet in book.sheets:
                if written.begins(sheet.name, is_hidden=sheet.is_hidden):
                    content = read_sheet(bundle, sheet, book, written.n_left)
                    written.add(content, list(read_comments(bundle, sheet)))
            return written.finish("xlsx", PARSER, title=book.title)
    except (ValueError, LookupError, ElementTree.ParseError) as error:
        raise inconsistent_file(name) from error
