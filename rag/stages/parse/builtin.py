"""Built-in parsers, registered by the kinds they read."""

from __future__ import annotations

from dataclasses import dataclass

from rag.core.documents import IMAGE_KINDS
from rag.core.plugins import register
from rag.stages.parse.builtin_parser import BuiltinParser
from rag.stages.parse.data import parsers as data
from rag.stages.parse.office import parsers as office


@register("parser")
class PlainParser(BuiltinParser):
    """Text and Markdown in any encoding."""

    name, label, kinds = "plain", "Text, Markdown", ("txt", "md")
    module, takes = "text.plain", ("kind", "encoding")


@register("parser")
class PdfParser(BuiltinParser):
    """PDF: text, pages, tables and headings, those of scans by OCR."""

    name, label, kinds = "pdfium", "PDF", ("pdf",)
    module, takes = "pdf", ("recognized",)


@register("parser")
class PictureParser(BuiltinParser):
    """Images, by OCR."""

    name, label, kinds = "picture", "Images", IMAGE_KINDS
    module, takes = "picture", ("kind", "recognized")


@register("parser")
class HtmlParser(BuiltinParser):
    """Web pages, as a browser would show them."""

    name, label, kinds = "html", "HTML", ("html",)
    module, takes = "web.html", ("encoding",)


@register("parser")
class MailParser(BuiltinParser):
    """E-mails: headers, text and their attachments' names."""

    name, label, kinds = "mail", "E-mail", ("eml",)
    module, takes = "mail.mail", ("encoding",)


@register("parser")
class EpubParser(BuiltinParser):
    """Books, their chapters in order."""

    name, label, kinds, module = "epub", "EPUB", ("epub",), "web.epub"


@register("parser")
class CsvParser(BuiltinParser):
    """CSV with any delimiter, in any encoding."""

    name, label, kinds = "csv", "CSV", ("csv",)
    module, takes = "spreadsheet.delimited", ("encoding",)


@register("parser")
class XlsxParser(BuiltinParser):
    """Excel: sheets, with values as Excel shows them."""

    name, label, kinds, module = "sheets", "Excel", ("xlsx",), "spreadsheet.xlsx"

    @dataclass(frozen=True)
    class Options:
        """``with_hidden`` takes in hidden sheets, rows and columns, and comments."""

        with_hidden: bool = False

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._told = {"with_hidden": options.with_hidden}


@register("parser")
class XlsParser(XlsxParser):
    """Excel before 2007."""

    name, label, kinds, module = "xls", "Excel 97", ("xls",), "spreadsheet.xls"


@register("parser")
class OdsParser(XlsxParser):
    """OpenDocument spreadsheets."""

    name, label, kinds, module = "ods", "OpenDocument spreadsheets", ("ods",), "spreadsheet.ods"


@register("parser")
class MsgParser(BuiltinParser):
    """Outlook messages."""

    name, label, kinds, module = "msg", "Outlook", ("msg",), "mail.msg"


@register("parser")
class OfdParser(BuiltinParser):
    """OFD, the fixed layout of Chinese invoices and official documents."""

    name, label, kinds, module = "ofd", "OFD", ("ofd",), "ofd"


_SHIPPED: tuple[type[BuiltinParser], ...] = (
    PlainParser,
    PdfParser,
    PictureParser,
    HtmlParser,
    MailParser,
    EpubParser,
    CsvParser,
    XlsxParser,
    XlsParser,
    OdsParser,
    MsgParser,
    OfdParser,
    office.DocParser,
    office.OfficeParser,
    office.OpenDocumentParser,
    office.PptParser,
    office.RichTextParser,
    data.JsonParser,
    data.YamlParser,
    data.XmlParser,
    data.SectionsParser,
    data.NotebookParser,
    data.SubtitlesParser,
)
READERS: dict[str, BuiltinParser] = {
    kind: parser(parser.Options()) for parser in _SHIPPED for kind in parser.kinds
}
