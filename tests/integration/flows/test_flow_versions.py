"""Versions of flows: saved, checked before they run, rolled back, compared; who sees and changes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from agents import models
from agents.flows.definition.archive import FlowFiles
from agents.flows.runs.start import RunRequest
from agents.flows.versions.versions import (
    activate_version,
    active_version,
    diff_flow_versions,
    export_flow,
    find_flow,
    find_version,
    import_flow,
    roll_back_flow,
    save_flow_version,
)
from rag.core.access import Scope, may_edit, may_read
from rag.core.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
)
from rag.services.access.api_keys import scope_of
from tests.factories import GroupFactory, UserFactory
from tests.integration.flow_world import run_flow

pytestmark = pytest.mark.django_db
FLOW = """\
name: small
description: A small flow
nodes: [{name: a, type: agent, config: {prompt: a.md}}]
edges: [{from: a, to: END}]
entry_node: a
"""
PROMPTS = {"a.md": "Answer {user_query}\n"}


@pytest.fixture
def owner() -> Scope:
    return scope_of(UserFactory())


def save(owner: Scope, text: str = FLOW, **prompts: str) -> models.FlowVersion:
    return save_flow_version(files=FlowFiles(text, {**PROMPTS, **prompts}), scope=owner)


def test_a_new_flow_belongs_to_who_saved_it_and_does_not_run_yet(owner: Scope) -> None:
    version = save(owner)
    assert (version.number, version.is_active, version.created_by_id) == (1, False, owner.user_id)
    assert (version.flow.owner_id, version.flow.title) == (owner.user_id, "A small flow")
    with pytest.raises(ConflictError, match="no active version"):
        run_flow(request=RunRequest(flow=version.flow, scope=owner, message="x"))


def test_the_same_text_is_no_new_version(owner: Scope) -> None:
    first = save(owner)
    assert save(owner) == first
    second = save(owner, **{"a.md": "Other"})
    assert second.number == 2
    assert save(owner).number == 3


def test_only_one_version_is_active(owner: Scope) -> None:
    first, second = save(owner), save(owner, **{"a.md": "Other"})
    activate_version(version=first, scope=owner)
    activate_version(version=second, scope=owner)
    assert active_version(flow=first.flow) == second
    with pytest.raises(IntegrityError), transaction.atomic():
        models.FlowVersion.objects.filter(pk=first.pk).update(is_active=True)
    assert roll_back_flow(flow=first.flow, scope=owner) == first
    assert active_version(flow=first.flow) == first
    with pytest.raises(ConflictError, match="no earlier version"):
        roll_back_flow(flow=first.flow, scope=owner)


def test_what_has_errors_is_kept_but_never_active(owner: Scope) -> None:
    good = save(owner)
    activate_version(version=good, scope=owner)
    bad = save(owner, FLOW.replace("to: END", "to: gone"))
    with pytest.raises(
        InvalidInputError, match=r"has errors \(1\)\. 4:\d+ there is no node “gone”"
    ):
        activate_version(version=bad, scope=owner)
    assert active_version(flow=good.flow) == good
    assert bad.flow.versions.count() == 2


def test_what_is_no_flow_is_not_kept(owner: Scope) -> None:
    with pytest.raises(InvalidInputError, match="line 3, column"):
        save(owner, FLOW.replace("type: agent", "type: rag_filez"))
    with pytest.raises(InvalidInputError, match="cannot be the path of a prompt"):
        save(owner, **{"../a.md": "x"})
    assert models.Flow.objects.count() == 0


def test_a_difference_is_shown_file_by_file(owner: Scope) -> None:
    first = save(owner)
    second = save(owner, FLOW.replace("A small flow", "A flow"), **{"b.md": "new\n"})
    diff = diff_flow_versions(old=first, new=second)
    assert "--- 1/flow.yaml\n+++ 2/flow.yaml" in diff
    assert "-description: A small flow\n+description: A flow" in diff
    assert "+++ 2/b.md" in diff and "2/a.md" not in diff
    assert diff_flow_versions(old=first, new=first) == ""


def test_a_flow_goes_out_and_comes_in_again(owner: Scope, tmp_path: Path) -> None:
    first = save(owner)
    export_flow(version=first, path=tmp_path)
    again = import_flow(path=tmp_path, scope=owner, note="again")
    assert again == first
    assert active_version(flow=first.flow) == first
    (tmp_path / "a.md").write_text("Changed", encoding="utf-8")
    assert import_flow(path=tmp_path, scope=owner, is_activated=False).number == 2
    assert active_version(flow=first.flow).number == 1


def test_another_s_flow_is_not_overwritten(owner: Scope) -> None:
    version = save(owner)
    other = scope_of(UserFactory())
    with pytest.raises(ConflictError, match="cannot be used"):
        save(other, **{"a.md": "mine"})
    models.Flow.objects.update(is_public=True)
    with pytest.raises(ForbiddenError, match="belongs to somebody else"):
        save(other, **{"a.md": "mine"})
    with pytest.raises(ForbiddenError, match="signed in"):
        save(Scope.anonymous(), FLOW.replace("small", "other", 1))
    with pytest.raises(ForbiddenError, match="Only editors"):
        activate_version(version=version, scope=scope_of(UserFactory()))


def test_versions_are_found_by_number(owner: Scope) -> None:
    version = save(owner)
    assert find_version(flow=version.flow, number=1) == version
    with pytest.raises(NotFoundError, match="no version 9. Known: 1"):
        find_version(flow=version.flow, number=9)
    with pytest.raises(NotFoundError):
        find_flow(name="small\0", scope=Scope.anonymous())


def test_the_querysets_follow_the_one_rule_of_access(owner: Scope) -> None:
    readers, editors = GroupFactory(), GroupFactory()
    flows = [save(owner, FLOW.replace("small", name, 1)).flow for name in ("a", "b", "c", "d")]
    flows[1].is_public = True
    flows[1].save()
    flows[2].runner_groups.add(readers)
    flows[3].editor_groups.add(editors)
    scopes = [
        owner,
        Scope.anonymous(),
        Scope.operator(),
        scope_of(UserFactory(groups=[readers])),
        scope_of(UserFactory(groups=[editors])),
        scope_of(UserFactory()),
        Scope(user_id=owner.user_id, only_store_ids=frozenset([1])),
        Scope(user_id=None, is_operator=True, only_store_ids=frozenset()),
    ]
    for scope in scopes:
        runnable = set(models.Flow.objects.runnable(scope))
        editable = set(models.Flow.objects.editable(scope))
        assert runnable == {flow for flow in flows if may_read(scope, flow.facts)}
        assert editable == {flow for flow in flows if may_edit(scope, flow.facts)}


def test_runs_are_seen_by_their_user_and_operators(owner: Scope) -> None:
    version = save(owner)
    users: list[Any] = [UserFactory(), UserFactory()]
    runs = [models.FlowRun.objects.create(version=version, user=user) for user in users]
    runs.append(models.FlowRun.objects.create(version=version))
    runs.append(models.FlowRun.objects.create(version=version, is_by_operator=True))
    seen = models.FlowRun.objects.readable
    assert list(seen(scope_of(users[0]))) == [runs[0]]
    assert set(seen(Scope.operator())) == set(runs)
    assert list(seen(Scope.anonymous())) == [runs[2]]


@pytest.mark.parametrize("text", ["Answer\0", "Answer \ud83d"])
def test_a_prompt_that_no_database_keeps_is_named(owner: Scope, text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        save(owner, **{"b/c.md": text})
    assert "b/c.md" in str(caught.value) and not models.Flow.objects.exists()


def test_a_title_is_what_can_be_kept_of_the_description(owner: Scope) -> None:
    version = save(owner, FLOW.replace("A small flow", '"A \\0small flow"'))
    assert version.flow.title == "A small flow"


def test_a_note_that_is_too_long_is_refused_and_not_cut(owner: Scope) -> None:
    files = FlowFiles(FLOW, PROMPTS)
    assert save_flow_version(files=files, scope=owner, note="n" * 200).note == "n" * 200
    with pytest.raises(InvalidInputError, match="Allowed: 200"):
        save_flow_version(files=files, scope=owner, note="n" * 201)
