"""Built-in parsers of data files, registered by the kinds they read."""

from __future__ import annotations

from rag.core.plugins import register
from rag.stages.parse.builtin_parser import BuiltinParser


@register("parser")
class JsonParser(BuiltinParser):
    """JSON: records whole, values with their paths."""

    name, label, kinds = "json", "JSON", ("json", "jsonl")
    module, takes = "data.json_file", ("kind", "encoding")


@register("parser")
class YamlParser(BuiltinParser):
    """YAML: values with their paths and comments."""

    name, label, kinds = "yaml", "YAML", ("yaml",)
    module, takes = "data.yaml_file", ("encoding",)


@register("parser")
class XmlParser(BuiltinParser):
    """XML: elements and attributes with their paths."""

    name, label, kinds = "xml", "XML", ("xml",)
    module, takes = "data.xml_file", ("encoding",)


@register("parser")
class SectionsParser(BuiltinParser):
    """INI, TOML and properties: lines below the paths of their sections."""

    name, label, kinds = "sections", "INI, TOML, properties", ("ini", "toml", "properties")
    module, takes = "data.sections", ("kind", "encoding")


@register("parser")
class NotebookParser(BuiltinParser):
    """Jupyter notebooks: cells and what they print."""

    name, label, kinds = "notebook", "Jupyter", ("ipynb",)
    module, takes = "data.notebook", ("encoding",)


@register("parser")
class SubtitlesParser(BuiltinParser):
    """Subtitles: what is said, with times."""

    name, label, kinds = "captions", "SubRip, WebVTT", ("srt", "vtt")
    module, takes = "data.subtitles", ("kind", "encoding")
