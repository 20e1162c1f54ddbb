"""Built-in parsers of office texts and slides, registered by the kinds they read."""

from __future__ import annotations

from rag.core.plugins import register
from rag.stages.parse.builtin_parser import BuiltinParser


@register("parser")
class DocParser(BuiltinParser):
    """Word before 2007."""

    name, label, kinds, module = "doc", "Word 97", ("doc",), "office.doc"


@register("parser")
class OfficeParser(BuiltinParser):
    """Word and PowerPoint: text with numbers, slides, and pictures by OCR."""

    name, label, kinds = "office", "Word, PowerPoint", ("docx", "pptx")
    module, takes = "office.office", ("kind", "recognized")


@register("parser")
class OpenDocumentParser(BuiltinParser):
    """OpenDocument texts and slides."""

    name, label, kinds = "opendocument", "OpenDocument", ("odt", "odp")
    module, takes = "opendocument.odt", ("kind",)


@register("parser")
class PptParser(BuiltinParser):
    """PowerPoint before 2007."""

    name, label, kinds, module = "ppt", "PowerPoint 97", ("ppt",), "office.ppt"


@register("parser")
class RichTextParser(BuiltinParser):
    """RTF, and Works by LibreOffice."""

    name, label, kinds = "rich_text", "RTF, Works", ("rtf", "wps")
    module, takes = "office.rich_text", ("kind",)
