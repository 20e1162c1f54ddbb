"""PDF file: opened by pdfium, else repaired once; refused with the reason."""

from __future__ import annotations

import io
from pathlib import Path

import pypdfium2 as pdfium
from pypdfium2 import raw

from rag.stages.detect.file_errors import (
    damaged_file,
    password_protected_file,
    rights_protected_file,
)


def open_pdf(path: Path, name: str) -> tuple[pdfium.PdfDocument, bool]:
    """Return the document and whether it had to be repaired; raise DocumentError."""
    try:
        return pdfium.PdfDocument(path), False
    except pdfium.PdfiumError as error:
        if error.err_code == raw.FPDF_ERR_PASSWORD:
            raise password_protected_file(name) from error
        if error.err_code == raw.FPDF_ERR_SECURITY:
            raise rights_protected_file(name) from error
    return _repaired(path, name), True


def _repaired(path: Path, name: str) -> pdfium.PdfDocument:
    """Return the document after one try of qpdf to rewrite it."""
    import pikepdf  # Only damaged files need it; it costs a fifth of a second.

    try:
        with pikepdf.open(path) as broken:
            out = io.BytesIO()
            broken.save(out)
        return pdfium.PdfDocument(out.getvalue())
    except pikepdf.PasswordError as error:
        raise password_protected_file(name) from error
    except (pikepdf.PikepdfError, pdfium.PdfiumError, RuntimeError, ValueError) as error:
        raise damaged_file(name) from error
