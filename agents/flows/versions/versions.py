"""Flows and their versions: look-up, check, save, activate, roll back, diff, import, export.

A version with errors never runs.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Max

from agents import models
from agents.flows.definition.archive import (
    FLOW_FILE,
    FlowFiles,
    check_prompt_paths,
    files_to_texts,
    read_flow_folder,
    write_flow_folder,
)
from agents.flows.definition.checks import check_flow
from agents.flows.definition.findings import FlowFinding
from agents.flows.versions.environment import flow_environment
from agents.flows.versions.load import load_flow
from rag.core.access import Scope, may_edit
from rag.core.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
)


def find_flow(*, name: str, scope: Scope) -> models.Flow:
    """Return a flow that ``scope`` may run; raise NotFoundError alike for none and a hidden one."""
    # No flow has such a name, and Postgres takes no NUL.
    found = models.Flow.objects.runnable(scope).filter(name=name.replace("\0", "\ufffd")).first()
    if found is None:
        raise NotFoundError("There is no flow “{name}”.", name=name)
    return found


def find_version(*, flow: models.Flow, number: int | None) -> models.FlowVersion:
    """Return a version by its number, None for the active one; raise NotFoundError."""
    if number is None:
        return active_version(flow=flow)
    found = flow.versions.filter(number=number).select_related("flow").first()
    if found is None:
        known = ", ".join(str(one) for one in flow.versions.values_list("number", flat=True))
        raise NotFoundError(
            "The flow “{name}” has no version {number}.",
            hint="Known: {known}.",
            name=flow.name,
            number=number,
            known=known or "none",
        )
    return found


def active_version(*, flow: models.Flow) -> models.FlowVersion:
    """Return the version that runs; raise ConflictError when none is active."""
    found = flow.versions.filter(is_active=True).select_related("flow").first()
    if found is None:
        raise ConflictError(
            "The flow “{name}” has no active version.", hint="Activate one.", name=flow.name
        )
    return found


def update_flow(*, flow: models.Flow, scope: Scope, values: Mapping[str, Any]) -> models.Flow:
    """Return the flow with title, groups or publicity changed; ForbiddenError for non-editors."""
    require_flow_editor(flow=flow, scope=scope)
    with transaction.atomic():
        for name, value in values.items():
            if name in ("runner_groups", "editor_groups"):
                getattr(flow, name).set(value)
            else:
                setattr(flow, name, value)
        flow.save()
    return flow


def delete_flow(*, flow: models.Flow, scope: Scope) -> None:
    """Delete a flow with its versions and runs; raise ConflictError while one is at work."""
    require_flow_editor(flow=flow, scope=scope)
    with transaction.atomic():
        models.Flow.objects.select_for_update().get(pk=flow.pk)
        at_work = models.FlowRun.objects.filter(status=models.FlowRun.Status.RUNNING)
        n_open = at_work.filter(version__flow=flow).count()
        if n_open:
            raise ConflictError(
                "The flow “{name}” has runs at work ({n}).",
                hint="Cancel them, or wait.",
                name=flow.name,
                n=n_open,
            )
        flow.delete()


def require_flow_editor(*, flow: models.Flow, scope: Scope) -> None:
    """Raise ForbiddenError unless ``scope`` is the flow's owner, an editor, an operator."""
    if not may_edit(scope, flow.facts):
        raise ForbiddenError("Only editors may change the flow “{name}”.", name=flow.name)


def _check_storable(files: FlowFiles, note: str) -> None:
    check_prompt_paths(files.prompts)
    limit = models.FlowVersion._meta.get_field("note").max_length or 0
    if len(note) > limit:
        raise InvalidInputError(
            "The note has {n} characters.", hint="Allowed: {limit}.", n=len(note), limit=limit
        )


def check_flow_files(*, files: FlowFiles, scope: Scope, name: str = FLOW_FILE) -> list[FlowFinding]:
    """Return what is wrong or doubtful; raise InvalidInputError where the YAML says no flow."""
    flow = load_flow(yaml=files.yaml, prompts=files.prompts, name=name)
    return check_flow(flow, flow_environment(scope=scope))


def save_flow_version(*, files: FlowFiles, scope: Scope, note: str = "") -> models.FlowVersion:
    """Return the new version of the flow that the YAML names, not active yet.

    A flow that is new belongs to whom ``scope`` is; what equals the newest version is no new one.
    Raises InvalidInputError where the YAML says no flow, ForbiddenError for another's flow,
    ConflictError for one that may not be seen either.
    """
    _check_storable(files, note)
    flow = load_flow(yaml=files.yaml, prompts=files.prompts)
    digest = _digest(files)
    if scope.user_id is None and not scope.is_operator:
        raise ForbiddenError("Only people who are signed in may save flows.")
    if scope.only_store_ids is not None:
        raise ForbiddenError("This key is limited to some stores and cannot change flows.")
    with transaction.atomic():
        # YAML can write a NUL, which a database does not keep.
        title = flow.definition.description.replace("\0", "")[:200]
        row, is_new = models.Flow.objects.get_or_create(
            name=flow.definition.name, defaults={"owner_id": scope.user_id, "title": title}
        )
        row = models.Flow.objects.select_for_update().get(pk=row.pk)
        if not is_new and not models.Flow.objects.runnable(scope).filter(pk=row.pk).exists():
            raise ConflictError.name_taken(row.name)
        if not is_new and not may_edit(scope, row.facts):
            raise ForbiddenError("The flow “{name}” belongs to somebody else.", name=row.name)
        newest = row.versions.order_by("-number").first()
        if newest is not None and newest.digest == digest:
            return newest
        return models.FlowVersion.objects.create(
            flow=row,
            number=(newest.number if newest else 0) + 1,
            yaml=files.yaml,
            prompts=dict(files.prompts),
            digest=digest,
            note=note,
            created_by_id=scope.user_id,
        )


# More errors than that have one cause.
MAX_TOLD = 50


def activate_version(*, version: models.FlowVersion, scope: Scope) -> list[FlowFinding]:
    """Let new runs take this version and return its warnings.

    Raises InvalidInputError with the errors of its check and their places, ForbiddenError for all
    but editors.
    """
    require_flow_editor(flow=version.flow, scope=scope)
    files = FlowFiles(version.yaml, version.prompts)
    findings = check_flow_files(files=files, scope=scope)
    errors = [found for found in findings if found.level == "error"]
    if errors:
        raise InvalidInputError(
            "The flow “{name}” has errors ({n}). {reasons}",
            name=version.flow.name,
            n=len(errors),
            reasons=" · ".join(f"{one.line}:{one.column} {one.text}" for one in errors[:MAX_TOLD]),
        )
    with transaction.atomic():
        models.Flow.objects.select_for_update().get(pk=version.flow_id)
        version.flow.versions.filter(is_active=True).update(is_active=False)
        models.FlowVersion.objects.filter(pk=version.pk).update(is_active=True)
    version.is_active = True
    return findings


def roll_back_flow(*, flow: models.Flow, scope: Scope) -> models.FlowVersion:
    """Activate the version before the active one and return it; raise ConflictError for none."""
    active = active_version(flow=flow)
    number = flow.versions.filter(number__lt=active.number).aggregate(n=Max("number"))["n"]
    if number is None:
        raise ConflictError("The flow “{name}” has no earlier version.", name=flow.name)
    version = flow.versions.select_related("flow").get(number=number)
    activate_version(version=version, scope=scope)
    return version


def diff_flow_versions(*, old: models.FlowVersion, new: models.FlowVersion) -> str:
    """Return what changed as a unified diff over the YAML and all prompts, empty for nothing."""
    before, after = (files_to_texts(FlowFiles(one.yaml, one.prompts)) for one in (old, new))
    parts: list[str] = []
    for name in sorted({*before, *after}):
        parts += difflib.unified_diff(
            before.get(name, "").splitlines(),
            after.get(name, "").splitlines(),
            f"{old.number}/{name}",
            f"{new.number}/{name}",
            lineterm="",
        )
    return "\n".join(parts)


def _digest(files: FlowFiles) -> str:
    raw = json.dumps([files.yaml, dict(files.prompts)], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()


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
