"""Built-in parsers, registered by the kinds they read; each loads its library at its first file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rag.core.documents import IMAGE_KINDS, ParsedDocument
from rag.core.ocr.scans import PageWords
from rag.core.plugins import register

NOTHING_RECOGNIZED: Mapping[int, PageWords] = MappingProxyType({})


class _BuiltinParser:
    """``parse_NAME`` of the module NAME, which ``module`` names from this folder on."""

    kinds: tuple[str, ...]
    module: str
    # What it is told beside path and name: kind, encoding, recognized.
    takes: tuple[str, ...] = ()

    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options: Any) -> None:
        self._told: dict[str, Any] = {}

    def parse(
        self,
        path: Path,
        *,
        name: str,
        kind: str,
        encoding: str,
        recognized: Mapping[int, PageWords] = NOTHING_RECOGNIZED,
    ) -> ParsedDocument:
        """Return the document; raise DocumentError saying what is wrong with it.

        ``recognized`` are the words of pages that OCR has read, by their number.
        """
        # Each brings a heavy library; a child process reads one file and needs one of them.
        reader = import_module(f"rag.stages.parse.{self.module}")
        told: dict[str, Any] = {"kind": kind, "encoding": encoding, "recognized": recognized}
        parse = getattr(reader, f"parse_{self.module.rpartition('.')[2]}")
        told = {**{one: told[one] for one in self.takes}, **self._told}
        found: ParsedDocument = parse(path, name, **told)
        return found


@register("parser")
class PlainParser(_BuiltinParser):
    """Text and Markdown in any encoding."""

    name, label, kinds = "plain", "Text, Markdown", ("txt", "md")
    module, takes = "text.plain", ("kind", "encoding")


@register("parser")
class PdfParser(_BuiltinParser):
    """PDF: text, pages, tables and headings, those of scans by OCR."""

    name, label, kinds = "pdfium", "PDF", ("pdf",)
    module, takes = "pdf", ("recognized",)


@register("parser")
class PictureParser(_BuiltinParser):
    """Images, by OCR."""

    name, label, kinds = "picture", "Images", IMAGE_KINDS
    module, takes = "picture", ("kind", "recognized")


@register("parser")
class HtmlParser(_BuiltinParser):
    """Web pages, as a browser would show them."""

    name, label, kinds = "html", "HTML", ("html",)
    module, takes = "web.html", ("encoding",)


@register("parser")
class MailParser(_BuiltinParser):
    """E-mails: headers, text and their attachments' names."""

    name, label, kinds = "mail", "E-mail", ("eml",)
    module, takes = "mail.mail", ("encoding",)


@register("parser")
class EpubParser(_BuiltinParser):
    """Books, their chapters in order."""

    name, label, kinds, module = "epub", "EPUB", ("epub",), "web.epub"


@register("parser")
class DocParser(_BuiltinParser):
    """Word before 2007."""

    name, label, kinds, module = "doc", "Word 97", ("doc",), "office.doc"


@register("parser")
class OfficeParser(_BuiltinParser):
    """Word and PowerPoint: text with numbers, and slides."""

    name, label, kinds = "office", "Word, PowerPoint", ("docx", "pptx")
    module, takes = "office.office", ("kind",)


@register("parser")
class CsvParser(_BuiltinParser):
    """CSV with any delimiter, in any encoding."""

    name, label, kinds = "csv", "CSV", ("csv",)
    module, takes = "spreadsheet.delimited", ("encoding",)


@register("parser")
class XlsxParser(_BuiltinParser):
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
class JsonParser(_BuiltinParser):
    """JSON: records whole, values with their paths."""

    name, label, kinds = "json", "JSON", ("json", "jsonl")
    module, takes = "data.json_file", ("kind", "encoding")


@register("parser")
class YamlParser(_BuiltinParser):
    """YAML: values with their paths and comments."""

    name, label, kinds = "yaml", "YAML", ("yaml",)
    module, takes = "data.yaml_file", ("encoding",)


@register("parser")
class XmlParser(_BuiltinParser):
    """XML: elements and attributes with their paths."""

    name, label, kinds = "xml", "XML", ("xml",)
    module, takes = "data.xml_file", ("encoding",)


@register("parser")
class SectionsParser(_BuiltinParser):
    """INI, TOML and properties: lines below the paths of their sections."""

    name, label, kinds = "sections", "INI, TOML, properties", ("ini", "toml", "properties")
    module, takes = "data.sections", ("kind", "encoding")


@register("parser")
class NotebookParser(_BuiltinParser):
    """Jupyter notebooks: cells and what they print."""

    name, label, kinds = "notebook", "Jupyter", ("ipynb",)
    module, takes = "data.notebook", ("encoding",)


@register("parser")
class SubtitlesParser(_BuiltinParser):
    """Subtitles: what is said, with times."""

    name, label, kinds = "captions", "SubRip, WebVTT", ("srt", "vtt")
    module, takes = "data.subtitles", ("kind", "encoding")


_SHIPPED: tuple[type[_BuiltinParser], ...] = (
    PlainParser,
    PdfParser,
    PictureParser,
    HtmlParser,
    MailParser,
    EpubParser,
    DocParser,
    OfficeParser,
    CsvParser,
    XlsxParser,
    JsonParser,
    YamlParser,
    XmlParser,
    SectionsParser,
    NotebookParser,
    SubtitlesParser,
)
READERS: dict[str, _BuiltinParser] = {
    kind: parser(parser.Options()) for parser in _SHIPPED for kind in parser.kinds
}
