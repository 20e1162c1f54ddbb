"""List the plugins: ``rag_plugins [--kind source] [--json]``."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import gettext

from rag.core.plugins import METHODS
from rag.management.rag_command import RagCommand
from rag.services.plugins import PluginInfo, PluginList, list_plugins


class Command(RagCommand):
    """List the plugins of all kinds with their options; exit 1 when a plugin failed."""

    # It reports failed plugins itself, built-in ones too, instead of stopping at them.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--kind", default="", help=f"only one of: {', '.join(METHODS)}")
        parser.add_argument("--json", action="store_true", help="print JSON, schemas included")

    def handle(self, *args: Any, **options: Any) -> None:
        found = list_plugins(kind=options["kind"])
        if options["json"]:
            self.stdout.write(json.dumps(_as_json(found), ensure_ascii=False, indent=2))
        else:
            self._print(found)
        if found.failures:
            raise CommandError(f"{len(found.failures)} plugin modules failed.")

    def _print(self, found: PluginList) -> None:
        for kind in METHODS:
            plugins = [plugin for plugin in found.plugins if plugin.kind == kind]
            if plugins:
                self.stdout.write(self.style.MIGRATE_HEADING(kind))
            for plugin in plugins:
                self._print_plugin(plugin)
        for failure in found.failures:
            self.stdout.write(self.style.ERROR(f"failed: {failure.module} ({failure.door})"))
            self.stdout.write(f"    {failure.reason}\n    {failure.where}")

    def _print_plugin(self, plugin: PluginInfo) -> None:
        self.stdout.write(f"  {self.style.SUCCESS(plugin.name)}  {plugin.label}  [{plugin.module}]")
        for name, shape in plugin.schema["properties"].items():
            is_required = name in plugin.schema["required"]
            self.stdout.write(f"    {name}: {_summary(shape, is_required=is_required)}")
            if shape["description"]:
                self.stdout.write(f"        {gettext(shape['description'])}")


def _summary(shape: Mapping[str, Any], *, is_required: bool) -> str:
    """Return type, limits, default and marks of an option on one line."""
    kind = shape["type"] if isinstance(shape["type"], str) else " or ".join(shape["type"])
    parts = [f"list of {shape['items']['type']}" if "items" in shape else kind]
    if "enum" in shape:
        parts.append(" | ".join(str(choice) for choice in shape["enum"]))
    if "minimum" in shape or "maximum" in shape:
        parts.append(f"{shape.get('minimum', '…')} to {shape.get('maximum', '…')}")
    if is_required:
        parts.append("required")
    else:
        parts.append(f"default {json.dumps(shape['default'], ensure_ascii=False)}")
    if "x-setting" in shape:
        parts.append(f"else the setting {shape['x-setting'].upper()}")
    return ", ".join([*parts, *(["the name of a secret"] if "x-secret" in shape else [])])


def _as_json(found: PluginList) -> dict[str, Any]:
    return {
        "plugins": [{**asdict(plugin), "label": str(plugin.label)} for plugin in found.plugins],
        "failures": [asdict(failure) for failure in found.failures],
    }
