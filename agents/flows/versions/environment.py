"""Environment of the flow linter: the sources, models, tools and stores of a caller."""

from __future__ import annotations

from functools import partial

from agents import models
from agents.core.source_configs import DataSourceConfig, McpServerConfig
from agents.flows.definition.checks import FlowEnvironment
from agents.flows.definition.node_configs import RagFilesConfig, flows_of
from agents.flows.versions.load import load_flow
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, LimitError, NotFoundError
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
        _check_server,
        partial(_check_flow, scope),
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


def _check_flow(scope: Scope, own: str, name: str) -> None:
    """Raise for a flow that is not there, has no active version, or leads back to ``own``."""
    waiting: list[tuple[str, ...]] = [(own, name)]
    known: set[str] = set()
    while waiting:
        path = waiting.pop()
        name = path[-1]
        if name == own:
            told = " → ".join(path)
            raise LimitError("The flow “{name}” runs itself: {path}.", name=own, path=told)
        if name in known:
            continue
        known.add(name)
        rows = models.FlowVersion.objects.filter(is_active=True, flow__name=name)
        version = rows.filter(flow__in=models.Flow.objects.runnable(scope)).first()
        if version is None:
            raise NotFoundError("There is no flow “{name}” with an active version.", name=name)
        flow = load_flow(yaml=version.yaml, prompts=version.prompts)
        waiting += [(*path, one) for one in flows_of(flow.configs.values())]


def _check_server(server: McpServerConfig) -> None:
    """Raise for a secret that is not there or may not be sent to the server."""
    if server.secret:
        SourceContext().secret(server.secret, url=server.mcp)


def _check_model(name: str) -> None:
    if name.startswith("scripted:") and not name.endswith((".yaml", ".yml")):
        raise InvalidInputError(
            "“{name}” names no script.", hint="A script is a .yaml file.", name=name
        )
    wiring.chat_model(name)
