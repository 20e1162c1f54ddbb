"""Import and export of a flow version from and to a folder."""

from __future__ import annotations

from pathlib import Path

from agents import models
from agents.flows.definition.archive import FlowFiles, read_flow_folder, write_flow_folder
from agents.flows.versions.versions import activate_version, save_flow_version
from rag.core.access import Scope


def import_flow(
    *, path: Path, scope: Scope, note: str = "", is_activated: bool = True
) -> models.FlowVersion:
    """Return the version that a folder became, active unless told otherwise.

    Raises what ``save_flow_version`` and ``activate_version`` raise; what was saved stays.
    """
    version = save_flow_version(files=read_flow_folder(path), scope=scope, note=note)
    if is_activated:
        activate_version(version=version, scope=scope)
    return version


def export_flow(*, version: models.FlowVersion, path: Path) -> list[Path]:
    """Write a version's YAML and prompts into a folder and return the files."""
    return write_flow_folder(path, FlowFiles(version.yaml, version.prompts))
