"""Environment of the flow linter: the sources, models, tools and stores of a caller."""

from __future__ import annotations

from functools import partial

from agents.core.source_configs import DataSourceConfig
from agents.flows.definition.checks import FlowEnvironment
from agents.flows.definition.node_configs import RagFilesConfig
from rag.core.access import Scope
from rag.core.errors import InvalidInputError
from rag.core.options import schema_of
from rag.core.plugins import PLUGINS
from rag.services.plugins import make_plugin
from rag.services.sources import SourceContext
from rag.services.stores import find_stores
from rag.services.wiring import registry as wiring

# The options of sources that name stores.
_STORES = {"vector_store": ("collection", "collections"), "gemini_file_search": ("store", "stores")}


def flow_environment(*, scope: Scope) -> FlowEnvironment:
    """Return the checks of this installation; stores must be readable by ``scope``."""
    return FlowEnvironment(
        partial(_check_source, scope),
        _check_model,
        partial(PLUGINS.get, "tool"),
        partial(_check_files, scope),
    )


def _check_source(scope: Scope, source: DataSourceConfig) -> None:
    plugin = PLUGINS.get("source", source.type)
    # Reads the options and refuses what no call could mend.
    make_plugin(kind="source", name=source.type, options=source.options)
    for name, shape in schema_of(plugin.Options)["properties"].items():
        secret = source.options.get(name)
        if shape.get("x-secret") and secret:
            called = source.options.get("endpoint") or source.options.get("url")
            SourceContext().secret(secret, url=str(called or ""))
    one, many = _STORES.get(source.type, ("", ""))
    names = [source.options.get(one) or "", *(source.options.get(many) or [])]
    if any(names):
        find_stores(names=[name for name in names if name], scope=scope)


def _check_files(scope: Scope, config: RagFilesConfig) -> None:
    if config.fileSearchStoreName:
        find_stores(names=[config.fileSearchStoreName], scope=scope)


def _check_model(name: str) -> None:
    if name.startswith("scripted:") and not name.endswith((".yaml", ".yml")):
        raise InvalidInputError(
            "“{name}” names no script.", hint="A script is a .yaml file.", name=name
        )
    wiring.chat_model(name)
