"""Built-in parsers, registered by the kinds they read; each loads its library at its first file."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from rag.core.documents import ParsedDocument
from rag.core.plugins import register


class _BuiltinParser:
    """``parse_NAME`` of the module beside this one that is called ``module``."""

    module: str
    # What it is told beside path and name: kind, encoding, or both.
    takes: tuple[str, ...] = ()

    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options: Options) -> None: ...

    def parse(self, path: Path, *, name: str, kind: str, encoding: str) -> ParsedDocument:
        """Return the document; raise DocumentError saying what is wrong with it."""
        # Each brings a heavy library; a child process reads one file and needs one of them.
        reader = import_module(f"rag.stages.parse.{self.module}")
        told: dict[str, Any] = {"kind": kind, "encoding": encoding}
        parse = getattr(reader, f"parse_{self.module}")
        found: ParsedDocument = parse(path, name, **{one: told[one] for one in self.takes})
        return found


@register("parser")
class PlainParser(_BuiltinParser):
    """Text, Markdown and CSV in any encoding."""

    name, label, kinds = "plain", "Text, Markdown, CSV", ("txt", "md", "csv")
    module, takes = "plain", ("kind", "encoding")


@register("parser")
class PdfParser(_BuiltinParser):
    """PDF with a text layer: text, pages and headings."""

    name, label, kinds, module = "pdfium", "PDF", ("pdf",), "pdf"


@register("parser")
class HtmlParser(_BuiltinParser):
    """Web pages, as a browser would show them."""

    name, label, kinds = "html", "HTML", ("html",)
    module, takes = "html", ("encoding",)


@register("parser")
class MailParser(_BuiltinParser):
    """E-mails: headers, text and their attachments' names."""

    name, label, kinds = "mail", "E-mail", ("eml",)
    module, takes = "mail", ("encoding",)


@register("parser")
class EpubParser(_BuiltinParser):
    """Books, their chapters in order."""

    name, label, kinds, module = "epub", "EPUB", ("epub",), "epub"


@register("parser")
class DocParser(_BuiltinParser):
    """Word before 2007."""

    name, label, kinds, module = "doc", "Word 97", ("doc",), "doc"


@register("parser")
class OfficeParser(_BuiltinParser):
    """Word, PowerPoint and Excel: text with numbers, slides and sheets."""

    name, label, kinds = "office", "Office", ("docx", "pptx", "xlsx")
    module, takes = "office", ("kind",)


_SHIPPED = (PlainParser, PdfParser, HtmlParser, MailParser, EpubParser, DocParser, OfficeParser)
READERS = {kind: parser(parser.Options()) for parser in _SHIPPED for kind in parser.kinds}
