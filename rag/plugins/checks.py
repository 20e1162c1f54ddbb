"""What ``manage.py check`` says of plugins that could not be loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Warning, register

from rag.conf import conf
from rag.core.errors import InvalidInputError, RAGError, UnknownNameError
from rag.core.options import find_option_errors, schema_of
from rag.core.plugins import CONFIGURED, PLUGINS
from rag.plugins.load import GROUP, MODULE, PluginFailure, load_plugins


@register
def check_plugins(
    *, app_configs: Sequence[AppConfig] | None = None, **_: Any
) -> list[CheckMessage]:
    """Return an error for each module of ours that failed, a warning for each foreign one.

    A warning lets every command run: a broken plugin must not stop a migration.
    """
    return [*map(_message, load_plugins()), *_option_faults()]


def _option_faults() -> Iterator[CheckMessage]:
    """Yield an error for each value of ``RAG_PLUGIN_OPTIONS`` that no plugin takes."""
    for path, values in conf().plugin_options.items():
        kind, _, name = path.partition(".")
        if kind not in CONFIGURED or name not in PLUGINS.names(kind):
            filed = (f"{kind}.{name}" for kind in CONFIGURED for name in PLUGINS.names(kind))
            faults: Iterable[RAGError] = [UnknownNameError("plugin", path, list(filed))]
        elif not isinstance(values, Mapping):
            faults = [InvalidInputError("The options of {of} are no JSON object.", of=path)]
        else:
            schema = schema_of(PLUGINS.get(kind, name).Options)
            faults = find_option_errors(schema | {"required": []}, values, of=path).values()
        for fault in faults:
            yield Error(str(fault), hint="Mend RAG_PLUGIN_OPTIONS.", obj=path, id="rag.E002")
    chosen = [("splitter", conf().splitter, "RAG_SPLITTER")]
    chosen += [("parser", name, "RAG_PARSERS") for name in conf().parsers.values()]
    for kind, name, setting in chosen:
        if name not in (known := list(PLUGINS.names(kind))):
            said = str(UnknownNameError(kind, name, known))
            yield Error(said, hint=f"Mend {setting}.", obj=name, id="rag.E003")


def _message(failure: PluginFailure) -> CheckMessage:
    text = f"The plugins of {failure.module} are not there: {failure.reason} (at {failure.where})"
    if failure.is_ours:
        hint = "This is a part of the product: install requirements.txt again."
        return Error(text, hint=hint, obj=failure.module, id="rag.E001")
    return Warning(text, hint=_remedy(failure), obj=failure.module, id="rag.W001")


def _remedy(failure: PluginFailure) -> str:
    if failure.door == "settings":
        return f"Mend the module, or take {failure.module} out of RAG_PLUGINS."
    if failure.door == "app":
        return f"Mend {MODULE}.py, or take its app out of INSTALLED_APPS."
    return (
        f"Mend the package {failure.door}, uninstall it, or take the entry point out of its"
        f" group {GROUP}."
    )
