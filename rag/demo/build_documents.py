"""Demo document builder: Office, PDF, HTML and GB18030 files from the marked-up texts of sources/.

A tool for whoever edits the texts; the application never runs it, and the Markdown files of
documents/ are edited in place. Needs in an environment of its own: python-docx==1.2.0
openpyxl==3.1.5 python-pptx==1.0.2 reportlab==5.1.0, and a TrueType font with Chinese glyphs
(Debian: fonts-wqy-microhei). The same texts give the same bytes.

    python rag/demo/build_documents.py

Marks: ``% `` title, ``# `` and ``## `` headings, ``- `` bullet, ``> `` speaker note, ``| a | b |``
table row, ``===`` new page.
"""

# The tools above are in no requirements file of the application.
# mypy: disable-error-code="import-not-found,import-untyped"

from __future__ import annotations

import html
import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import openpyxl
from docx import Document
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from openpyxl.styles import Font
from pptx import Presentation
from pptx.util import Inches, Pt
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Table

HERE = Path(__file__).resolve().parent
CHINESE_FONT = Path("/usr/share/fonts/truetype/wqy/wqy-microhei.ttc")
DATE = datetime(2026, 7, 1, 9, 0, 0)
MARKS = {"% ": "title", "# ": "h1", "## ": "h2", "- ": "item", "> ": "note", "| ": "row"}


@dataclass
class DemoBlock:
    """A title, heading, paragraph, bullet, note, page break or table of a source text."""

    kind: str
    text: str = ""
    rows: list[list[str]] = field(default_factory=list)


def main() -> None:
    """Write every built document anew; the source of ``x.pdf`` is ``sources/x.pdf.txt``."""
    builders = {".docx": _docx, ".pdf": _pdf, ".html": _html, ".pptx": _pptx, ".xlsx": _xlsx}
    for path in sorted((HERE / "sources").glob("*.txt")):
        source, target = path.read_text(encoding="utf-8"), HERE / "documents" / path.stem
        if target.suffix == ".txt":
            target.write_bytes(source.encode("gb18030"))
        else:
            target.write_bytes(builders[target.suffix](list(_blocks(source))))


def _blocks(source: str) -> Iterator[DemoBlock]:
    rows: list[list[str]] = []
    for line in [*source.splitlines(), ""]:
        kind = next((kind for mark, kind in MARKS.items() if line.startswith(mark)), "text")
        if kind == "row":
            rows.append([cell.strip() for cell in line.strip("| ").split(" | ")])
            continue
        if rows:
            yield DemoBlock("table", rows=rows)
            rows = []
        if line == "===":
            yield DemoBlock("page")
        elif line.strip():
            yield DemoBlock(kind, line if kind == "text" else line.split(" ", 1)[1])


def _docx(blocks: list[DemoBlock]) -> bytes:
    document = Document()
    _number_headings(document)
    document.core_properties.title = blocks[0].text
    document.core_properties.author = ""
    styles = {"title": "Title", "h1": "Heading 1", "h2": "Heading 2", "item": "List Bullet"}
    for block in blocks:
        if block.kind == "table":
            width = len(block.rows[0])
            table = document.add_table(len(block.rows), width, "Light Grid Accent 1")
            for n, text in enumerate(cell for row in block.rows for cell in row):
                table.cell(*divmod(n, width)).text = text
            document.add_paragraph()
        else:
            document.add_paragraph(block.text, styles.get(block.kind))
    return _frozen(document)


def _number_headings(document: Any) -> None:
    """Number headings as Word does it: in numbering.xml, so that no digit is in their text."""
    numbering = document.part.numbering_part.element
    levels = "".join(
        f'<w:lvl w:ilvl="{level}"><w:start w:val="1"/><w:numFmt w:val="decimal"/>'
        f'<w:pStyle w:val="Heading{level + 1}"/><w:lvlText w:val="{text}"/></w:lvl>'
        for level, text in enumerate(("%1", "%1.%2"))
    )
    abstract = f'<w:abstractNum {nsdecls("w")} w:abstractNumId="90">{levels}</w:abstractNum>'
    numbering.insert(0, parse_xml(abstract))
    use = f'<w:num {nsdecls("w")} w:numId="90"><w:abstractNumId w:val="90"/></w:num>'
    numbering.append(parse_xml(use))
    for level in (0, 1):
        properties = document.styles[f"Heading {level + 1}"].element.get_or_add_pPr()
        properties.get_or_add_numPr().get_or_add_ilvl().val = level
        properties.get_or_add_numPr().get_or_add_numId().val = 90


def _pdf(blocks: list[DemoBlock]) -> bytes:
    chinese = not blocks[0].text.isascii()
    if chinese:
        pdfmetrics.registerFont(TTFont("Chinese", CHINESE_FONT))
    regular, bold = ("Chinese", "Chinese") if chinese else ("Helvetica", "Helvetica-Bold")
    style = ParagraphStyle("text", fontName=regular, fontSize=10.5, leading=16, spaceAfter=6)
    style.wordWrap = "CJK" if chinese else None
    styles = {
        "text": style,
        "item": ParagraphStyle("item", style, leftIndent=12),
        "title": ParagraphStyle("title", style, fontName=bold, fontSize=19, leading=30),
        "h1": ParagraphStyle("h1", style, fontName=bold, fontSize=15, leading=24),
        "h2": ParagraphStyle("h2", style, fontName=bold, fontSize=12, leading=19, spaceBefore=6),
        "cell": ParagraphStyle("cell", style, fontSize=9.5, leading=13, spaceAfter=0),
    }
    story = [_flowable(block, styles) for block in blocks]
    target = io.BytesIO()
    document = SimpleDocTemplate(
        target,
        pagesize=A4,
        title=blocks[0].text,
        author="",
        invariant=1,
        leftMargin=64,
        rightMargin=64,
        topMargin=56,
        bottomMargin=56,
    )
    document.afterFlowable = lambda flowable: _bookmark(document.canv, flowable)
    label = "第 {} 页" if chinese else "Page {}"
    # At the end of a page, so that the text layer ends with the number and does not begin with it.
    document.afterPage = lambda: _footer(document, regular, label)
    document.build(story)
    return target.getvalue()


def _flowable(block: DemoBlock, styles: dict[str, ParagraphStyle]) -> Any:
    if block.kind == "page":
        return PageBreak()
    if block.kind != "table":
        return Paragraph(html.escape(block.text), styles[block.kind])
    cells = [[Paragraph(html.escape(cell), styles["cell"]) for cell in row] for row in block.rows]
    table = Table(cells, hAlign="LEFT", spaceBefore=4, spaceAfter=8, repeatRows=1)
    grid = ("GRID", (0, 0), (-1, -1), 0.5, colors.grey)
    table.setStyle([grid, ("BACKGROUND", (0, 0), (-1, 0), colors.whitesmoke)])
    return table


def _bookmark(canvas: Any, flowable: Any) -> None:
    level = {"h1": 0, "h2": 1}.get(getattr(getattr(flowable, "style", None), "name", ""))
    if level is not None:
        text = flowable.getPlainText()
        canvas.bookmarkPage(text)
        canvas.addOutlineEntry(text, text, level, closed=False)


def _footer(document: Any, font: str, label: str) -> None:
    document.canv.setFont(font, 8.5)
    document.canv.drawCentredString(A4[0] / 2, 32, label.format(document.page))


def _html(blocks: list[DemoBlock]) -> bytes:
    tags = {"title": "h1", "h1": "h2", "h2": "h3", "text": "p", "item": "li"}
    body = []
    for block in blocks:
        if block.kind == "table":
            for n, row in enumerate(block.rows):
                cells = "".join(f"<{'td' if n else 'th'}>{html.escape(c)}" for c in row)
                body.append(f"{'' if n else '<table>'}<tr>{cells}")
            body.append("</table>")
        else:
            tag = tags[block.kind]
            body.append(f"<{tag}>{html.escape(block.text)}</{tag}>")
    title = html.escape(blocks[0].text)
    head = f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{title}</title>\n'
    style = "<style>body { max-width: 42em; margin: auto; font-family: sans-serif }</style>\n"
    return (head + style + "\n".join(body) + "\n</html>\n").encode()


def _pptx(blocks: list[DemoBlock]) -> bytes:
    deck = Presentation()
    deck.core_properties.title = blocks[0].text
    deck.core_properties.author = ""
    slide: Any = None
    frame: Any = None
    for block in blocks:
        if block.kind in ("title", "h1"):
            slide = deck.slides.add_slide(deck.slide_layouts[0 if block.kind == "title" else 1])
            slide.shapes.title.text, frame = block.text, slide.placeholders[1].text_frame
        elif block.kind == "table":
            slide.placeholders[1].element.getparent().remove(slide.placeholders[1].element)
            size, area = (len(block.rows), len(block.rows[0])), map(Inches, (0.5, 1.8, 9, 3))
            table = slide.shapes.add_table(*size, *area).table
            for n, text in enumerate(cell for row in block.rows for cell in row):
                cell = table.cell(*divmod(n, size[1]))
                cell.text = text
                cell.text_frame.paragraphs[0].font.size = Pt(16)
        elif block.kind == "note":
            slide.notes_slide.notes_text_frame.text = block.text
        else:
            line = frame.paragraphs[0] if not frame.text else frame.add_paragraph()
            line.text = block.text
    return _frozen(deck)


def _xlsx(blocks: list[DemoBlock]) -> bytes:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for block in blocks:
        if block.kind == "h1":
            sheet = book.create_sheet(block.text)
            continue
        for row in block.rows:
            sheet.append([int(cell) if cell.isdigit() else cell for cell in row])
        for column, cell in zip("ABCDEF", sheet[1], strict=False):
            cell.font = Font(bold=True)
            sheet.column_dimensions[column].width = 26
    return _frozen(book)


def _frozen(document: Any) -> bytes:
    """Return the saved package with fixed dates, so that a rebuild changes no byte."""
    raw, target = io.BytesIO(), io.BytesIO()
    document.save(raw)
    stamp = f"{DATE:%Y-%m-%dT%H:%M:%SZ}".encode()
    with zipfile.ZipFile(raw) as package, zipfile.ZipFile(target, "w") as copy:
        for name in package.namelist():
            content = package.read(name)
            if name == "docProps/core.xml":
                content = re.sub(rb"\d{4}-\d\d-\d\dT[\d:]+Z", stamp, content)
            info = zipfile.ZipInfo(name, DATE.timetuple()[:6])
            copy.writestr(info, content, zipfile.ZIP_DEFLATED)
    return target.getvalue()


if __name__ == "__main__":
    main()
