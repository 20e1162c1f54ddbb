"""Write a flow into a folder: ``flow_export NAME PATH [--number N]``."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from agents.flows.versions.versions import export_flow, find_flow, find_version
from rag.core.access import Scope
from rag.management.rag_command import RagCommand


class Command(RagCommand):
    """Write a flow's YAML and prompts, of its active version or another, into a folder."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the flow's name")
        parser.add_argument("path", type=Path, help="the folder, made when it is not there")
        parser.add_argument("--number", type=int, help="a version's number; else the active one")

    def handle(self, *args: Any, **options: Any) -> None:
        flow = find_flow(name=options["name"], scope=Scope.operator())
        version = find_version(flow=flow, number=options["number"])
        files = export_flow(version=version, path=options["path"])
        for file in files:
            self.stdout.write(str(file))
