"""Parsers that ship, filed by the kinds they read; each brings its library when it first reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rag.core.documents import ParsedDocument
from rag.core.plugins import register


class _Builtin:
    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options: Options) -> None: ...


# Each parser brings a heavy library; a child process reads one file and needs one of them.
@register("parser")
class PlainParser(_Builtin):
    """Text, Markdown and CSV in any encoding."""

    name, label, kinds = "plain", "Text, Markdown, CSV", ("txt", "md", "csv")

    def parse(self, path: Path, *, name: str, kind: str, encoding: str) -> ParsedDocument:
        """Return the decoded text with its blocks."""
        from rag.stages.parse.plain import parse_plain  # the tables of encodings

        return parse_plain(path, name, kind, encoding)


@register("parser")
class PdfParser(_Builtin):
    """PDF with a text layer."""

    name, label, kinds = "pdfium", "PDF", ("pdf",)

    def parse(self, path: Path, *, name: str, kind: str, encoding: str) -> ParsedDocument:
        """Return text, pages and headings."""
        from rag.stages.parse.pdf import parse_pdf  # pdfium

        return parse_pdf(path, name)


@register("parser")
class HtmlParser(_Builtin):
    """Web pages."""

    name, label, kinds = "html", "HTML", ("html",)

    def parse(self, path: Path, *, name: str, kind: str, encoding: str) -> ParsedDocument:
        """Return what a browser would show."""
        from rag.stages.parse.html import parse_html  # xberg

        return parse_html(path, name, encoding)


@register("parser")
class MailParser(_Builtin):
    """E-mails with their attachments' names."""

    name, label, kinds = "mail", "E-mail", ("eml",)

    def parse(self, path: Path, *, name: str, kind: str, encoding: str) -> ParsedDocument:
        """Return headers and text."""
        from rag.stages.parse.mail import parse_mail  # email

        return parse_mail(path, name, encoding)


@register("parser")
class EpubParser(_Builtin):
    """Books."""

    name, label, kinds = "epub", "EPUB", ("epub",)

    def parse(self, path: Path, *, name: str, kind: str, encoding: str) -> ParsedDocument:
        """Return the chapters in order."""
        from rag.stages.parse.epub import parse_epub  # zip and XML

        return parse_epub(path, name)


@register("parser")
class DocParser(_Builtin):
    """Word before 2007."""

    name, label, kinds = "doc", "Word 97", ("doc",)

    def parse(self, path: Path, *, name: str, kind: str, encoding: str) -> ParsedDocument:
        """Return the text."""
        from rag.stages.parse.doc import parse_doc  # xberg

        return parse_doc(path, name)


@register("parser")
class OfficeParser(_Builtin):
    """Word, PowerPoint and Excel."""

    name, label, kinds = "office", "Office", ("docx", "pptx", "xlsx")

    def parse(self, path: Path, *, name: str, kind: str, encoding: str) -> ParsedDocument:
        """Return text with numbers, slides and sheets."""
        from rag.stages.parse.office import parse_office  # xberg

        return parse_office(path, name, kind)


READERS = {
    kind: parser(parser.Options())
    for parser in (
        PlainParser,
        PdfParser,
        HtmlParser,
        MailParser,
        EpubParser,
        DocParser,
        OfficeParser,
    )
    for kind in parser.kinds
}
