"""Flow versions: check, save, activate, roll back and diff; a version with errors never runs."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping

from django.db import transaction
from django.db.models import Max

from agents import models
from agents.flows.definition.archive import FlowFiles, check_prompt_paths
from agents.flows.definition.checks import check_flow
from agents.flows.definition.findings import FlowFinding
from agents.flows.versions.environment import flow_environment
from agents.flows.versions.load import load_flow
from agents.flows.versions.manage import active_version
from rag.core.access import Scope, may_edit
from rag.core.errors import ConflictError, ForbiddenError, InvalidInputError


def check_version(*, files: FlowFiles, note: str) -> None:
    """Raise InvalidInputError for a path, a text or a note that has no place in the database."""
    check_prompt_paths(files.prompts)
    limit = models.FlowVersion._meta.get_field("note").max_length or 0
    if len(note) > limit:
        raise InvalidInputError(
            "The note has {n} characters.", hint="Allowed: {limit}.", n=len(note), limit=limit
        )


FLOW_FILE = "flow.yaml"


def check_flow_files(*, files: FlowFiles, scope: Scope, name: str = FLOW_FILE) -> list[FlowFinding]:
    """Return what is wrong or doubtful; raise InvalidInputError where the YAML says no flow."""
    flow = load_flow(yaml=files.yaml, prompts=files.prompts, name=name)
    return check_flow(flow, flow_environment(scope=scope))


def save_flow_version(*, files: FlowFiles, scope: Scope, note: str = "") -> models.FlowVersion:
    """Return the new version of the flow that the YAML names, not active yet.

    A flow that is new belongs to whom ``scope`` is; what equals the newest version is no new one.
    Raises InvalidInputError where the YAML says no flow, ForbiddenError for another's flow.
    """
    check_version(files=files, note=note)
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


def activate_version(*, version: models.FlowVersion, scope: Scope) -> list[FlowFinding]:
    """Let new runs take this version and return its warnings.

    Raises InvalidInputError with the first error of its check, ForbiddenError for all but editors.
    """
    if not may_edit(scope, version.flow.facts):
        raise ForbiddenError("Only editors may change the flow “{name}”.", name=version.flow.name)
    files = FlowFiles(version.yaml, version.prompts)
    findings = check_flow_files(files=files, scope=scope)
    errors = [found for found in findings if found.level == "error"]
    if errors:
        raise InvalidInputError(
            "The flow “{name}” has errors ({n}). Line {line}: {reason}",
            hint="See all by {command}.",
            name=version.flow.name,
            n=len(errors),
            line=errors[0].line,
            reason=errors[0].text,
            command="flow_check",
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
    before, after = _texts(old), _texts(new)
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


def _texts(version: models.FlowVersion) -> Mapping[str, str]:
    return {**version.prompts, FLOW_FILE: version.yaml}


def _digest(files: FlowFiles) -> str:
    raw = json.dumps([files.yaml, dict(files.prompts)], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()
