"""Flow language of this installation: the JSON schema with its node types, sources and tools."""

from __future__ import annotations

from typing import Any

from django.utils.translation import get_language, gettext

from agents.core.nodes import NODE_TYPES, node_configs
from agents.flows.definition.flow_schema import FlowVocabulary, flow_schema
from rag.core.options import schema_of
from rag.core.plugins import PLUGINS


def installed_flow_schema() -> dict[str, Any]:
    """Return the schema of a flow's YAML; what people read in it is in the current language."""
    labels = {name: gettext(str(node.label)) for name, node in NODE_TYPES.items()}
    sources = {}
    for name in PLUGINS.names("source"):
        plugin = PLUGINS.get("source", name)
        labels.setdefault(name, gettext(str(plugin.label)))
        sources[name] = _translated(schema_of(plugin.Options))
    words = FlowVocabulary(node_configs(), labels, sources, tuple(PLUGINS.names("tool")))
    return flow_schema(words)


def _translated(options: dict[str, Any]) -> dict[str, Any]:
    """Return options whose descriptions are in the reader's language; others are left out."""
    is_english = (get_language() or "en").startswith("en")
    for shape in options["properties"].values():
        said = shape.pop("description")
        # Of the empty text gettext returns the catalogue's own header.
        told = gettext(said) if said else ""
        if told and (is_english or told != said):
            shape["description"] = told
    return options
