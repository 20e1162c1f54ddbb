"""Parser for Jupyter notebooks: cells and what they print; pictures are told, not read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rag.core.documents import Notice, ParsedDocument
from rag.stages.detect.decode import decode_text
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.data.tree import read_as_text
from rag.stages.parse.text.plain import markdown_blocks

# Characters of what a cell prints: a log of a training has megabytes.
_MAX_OUTPUT = 4_000
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_IMAGE_IN_TEXT = re.compile(r"\(data:image/[^)]*\)")


def parse_notebook(path: Path, name: str, encoding: str = "") -> ParsedDocument:
    """Return the cells in order; what is no notebook is read as plain text and says so."""
    text, found = decode_text(path.read_bytes(), name, encoding)
    try:
        notebook = json.loads(text)
        cells = list(_cells(notebook))
    except (ValueError, RecursionError, AttributeError, TypeError):
        return read_as_text(path, name, encoding, "it is no notebook")
    canonical = CanonicalText()
    n_images = n_cut = 0
    for cell in cells:
        source = _text(cell.get("source", cell.get("input", "")))
        if cell.get("cell_type") == "code":
            canonical.add("code", source)
            for output in _dicts(cell.get("outputs")):
                shown = _COLOUR.sub("", _output(output)).strip()
                n_images += _n_images(output)
                n_cut += len(shown) > _MAX_OUTPUT
                canonical.add("code", shown[:_MAX_OUTPUT])
        elif cell.get("cell_type") == "heading":
            canonical.add("heading", source, int(cell.get("level") or 1))
        else:
            _add_markdown(canonical, source)
    if n_images:
        canonical.warnings.append(Notice("Images in its outputs are not read: {n}.", n=n_images))
    if n_cut:
        canonical.warnings.append(
            Notice("Of long outputs the first {n} characters are kept.", n=_MAX_OUTPUT)
        )
    return canonical.finish("ipynb", "notebook/1", encoding=found, title="")


def _cells(notebook: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the cells; before version 4 they lay in worksheets."""
    if "cells" not in notebook and "worksheets" not in notebook:
        raise ValueError("no cells")
    yield from _dicts(notebook.get("cells"))
    for sheet in _dicts(notebook.get("worksheets")):
        yield from _dicts(sheet.get("cells"))


def _dicts(values: Any) -> Iterator[Mapping[str, Any]]:
    yield from (one for one in values or () if isinstance(one, dict))


def _text(value: Any) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value or "")


def _add_markdown(canonical: CanonicalText, source: str) -> None:
    source = _IMAGE_IN_TEXT.sub("()", source)
    end = 0
    for block in markdown_blocks(source):
        canonical.add("paragraph", source[end : block.start])
        canonical.add(block.kind, source[block.start : block.end], block.level)
        end = block.end
    canonical.add("paragraph", source[end:])


def _output(output: Mapping[str, Any]) -> str:
    """Return the text of an output: of its forms the plainest."""
    if output.get("output_type") in ("error", "pyerr"):
        return f"{output.get('ename', '')}: {output.get('evalue', '')}"
    data = output.get("data")
    forms: Mapping[str, Any] = data if isinstance(data, dict) else output
    for form in ("text/plain", "text/markdown", "text/latex", "text"):
        if forms.get(form):
            return _text(forms[form])
    return ""


def _n_images(output: Mapping[str, Any]) -> int:
    data = output.get("data")
    forms = data if isinstance(data, dict) else output
    return any(str(form).startswith("image/") or form in ("png", "jpeg") for form in forms)
