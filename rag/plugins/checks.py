"""What ``manage.py check`` says of plugins that could not be loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Warning, register

from rag.plugins.load import GROUP, MODULE, PluginFailure, load_plugins


@register
def check_plugins(
    *, app_configs: Sequence[AppConfig] | None = None, **_: Any
) -> list[CheckMessage]:
    """Return an error for each module of ours that failed, a warning for each foreign one.

    A warning lets every command run: a broken plugin must not stop a migration.
    """
    return [_message(failure) for failure in load_plugins()]


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
