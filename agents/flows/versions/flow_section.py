"""Section of flows in a configuration kept as files: YAML, prompts, who may run and change them."""

from __future__ import annotations

from typing import Any

from agents import models
from agents.flows.definition.archive import FlowFiles
from agents.flows.versions.load import load_flow
from agents.flows.versions.versions import (
    activate_version,
    delete_flow,
    save_flow_version,
    update_flow,
)
from rag.core.access import Scope
from rag.core.errors import InvalidInputError
from rag.services.configuration import (
    ConfigItem,
    ConfigSection,
    group_names,
    named_groups,
    named_owner,
    register_section,
)

_GROUPS = ("runner_groups", "editor_groups")


class FlowItem(ConfigItem):
    """The keys of a flow; its name is that of the file and of its YAML."""

    title: str = ""
    yaml: str = ""
    prompts: dict[str, str] = {}
    owner: str | None = None
    runner_groups: list[str] = []
    editor_groups: list[str] = []
    is_public: bool = False


def _describe(scope: Scope) -> dict[str, dict[str, Any]]:
    rows = models.Flow.objects.editable(scope).select_related("owner").prefetch_related(*_GROUPS)
    active = models.FlowVersion.objects.filter(is_active=True, flow__in=rows)
    versions = {version.flow_id: version for version in active}
    return {
        flow.name: {
            "title": flow.title,
            "owner": flow.owner.get_username() if flow.owner else None,
            **{name: group_names(getattr(flow, name)) for name in _GROUPS},
            "is_public": flow.is_public,
            "yaml": versions[flow.pk].yaml,
            "prompts": versions[flow.pk].prompts,
        }
        for flow in rows.order_by("name")
        if flow.pk in versions
    }


def _put(scope: Scope, name: str, values: dict[str, Any], prunes: bool) -> None:
    given = dict(values)
    active = models.FlowVersion.objects.filter(flow__name=name, is_active=True).first()
    yaml = given.pop("yaml", active.yaml if active else "")
    prompts = given.pop("prompts", active.prompts if active else {})
    if active is None or (yaml, prompts) != (active.yaml, active.prompts):
        _activate(scope, name, FlowFiles(yaml, prompts))
    flow = models.Flow.objects.get(name=name)
    given |= {one: named_groups(given[one], scope) for one in _GROUPS if one in given}
    if "owner" in given:
        given["owner"] = named_owner(given["owner"], scope)
    update_flow(flow=flow, scope=scope, values=given)


def _activate(scope: Scope, name: str, files: FlowFiles) -> None:
    told = load_flow(yaml=files.yaml, prompts=files.prompts).definition.name
    if told != name:
        raise InvalidInputError(
            "The YAML names the flow “{told}”.", hint="The file is “{name}”.", told=told, name=name
        )
    activate_version(version=save_flow_version(files=files, scope=scope), scope=scope)


def _drop(scope: Scope, name: str) -> None:
    delete_flow(flow=models.Flow.objects.get(name=name), scope=scope)


def register_flow_section() -> None:
    """Let flows be written and applied."""
    register_section(ConfigSection("flows", FlowItem, "agents.{}_flow", _describe, _put, _drop))
