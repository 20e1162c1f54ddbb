"""Flows in the admin: written with line and column, drawn, compared, run, decided."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest
from django.test import Client

from agents import models
from agents.flows.runs.control import decide_review
from agents.flows.runs.start import RunRequest
from rag.core.errors import ProviderTimeoutError
from rag.services.access.api_keys import scope_of
from tests.edges.admin_client import at, client_of, page
from tests.edges.flow_desk import FLOW, PROMPTS, FlowDesk, flow_desk  # noqa: F401
from tests.factories import GroupFactory, UserFactory, upload
from tests.integration.flow_world import run_flow

pytestmark = pytest.mark.django_db
RIGHTS = ("view_flow", "add_flow", "change_flow", "delete_flow", "view_flowrun")


@pytest.fixture
def desk(flow_desk: FlowDesk) -> FlowDesk:  # noqa: F811
    owner = UserFactory(permissions=RIGHTS)
    flow_desk.flow.owner = flow_desk.owner = owner
    flow_desk.flow.save()
    return flow_desk


@pytest.fixture
def client(desk: FlowDesk) -> Client:
    return client_of(desk.owner)


def edit(client: Client, desk: FlowDesk, action: str, yaml: str = FLOW, **more: Any) -> Any:
    values = {"yaml": yaml.replace("\n", "\r\n"), "path": [*PROMPTS, ""], "action": action}
    values |= {"text": [*PROMPTS.values(), ""], **more}
    return client.post(at("agents_flow_edit", desk.flow.pk), values)


def paused(desk: FlowDesk, message: str = "danger") -> models.FlowRun:
    request = RunRequest(flow=desk.flow, scope=scope_of(desk.owner), message=message)
    return run_flow(request=request)


def test_a_mistake_is_told_with_line_and_column_and_what_was_typed_stays(
    client: Client, desk: FlowDesk
) -> None:
    response = edit(client, desk, "save", FLOW.replace("human_review", "nope"), note="mine")
    text = response.content.decode()
    assert response.status_code == 422 and desk.flow.versions.count() == 1
    assert "line 4, column 20" in text and "unknown type “nope”" in text
    assert 'data-line="4" data-column="20"' in text
    assert "type: nope" in text and 'value="mine"' in text


def test_the_check_lists_all_findings_and_saves_nothing(client: Client, desk: FlowDesk) -> None:
    text = edit(client, desk, "check", FLOW.replace("judge.md", "gone.md")).content.decode()
    assert "there is no prompt “gone.md”" in text and 'data-line="3"' in text
    assert "The check found nothing." in edit(client, desk, "check").content.decode()
    assert desk.flow.versions.count() == 1


def test_a_version_is_saved_activated_compared_and_rolled_back(
    client: Client, desk: FlowDesk
) -> None:
    changed = FLOW.replace('risk == "high"', 'risk != "low"')
    response = edit(client, desk, "activate", changed, note="stricter")
    assert response.status_code == 302
    newest = desk.flow.versions.get(is_active=True)
    assert (newest.number, newest.note, newest.yaml) == (2, "stricter", changed)
    text = page(client, "agents_flow_versions", desk.flow.pk)
    assert "risk != &quot;low&quot;" in text and 'class="went"' in text
    client.post(at("agents_flow_versions", desk.flow.pk), {"action": "rollback"})
    assert desk.flow.versions.get(is_active=True).number == 1
    client.post(at("agents_flow_versions", desk.flow.pk), {"action": "activate", "version": "2"})
    assert desk.flow.versions.get(is_active=True).number == 2


def test_a_version_with_errors_is_saved_and_does_not_run(client: Client, desk: FlowDesk) -> None:
    wrong = FLOW.replace("judge.md", "gone.md")
    assert edit(client, desk, "activate", wrong).status_code == 422
    assert desk.flow.versions.get(is_active=True).number == 1
    response = client.post(
        at("agents_flow_versions", desk.flow.pk), {"action": "activate", "version": "2"}
    )
    assert response.status_code == 422 and "has errors" in response.content.decode()


def test_a_flow_goes_out_as_a_zip_and_comes_in_again(client: Client, desk: FlowDesk) -> None:
    packed = client.get(at("agents_flow_export", desk.flow.pk)).content
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert sorted(archive.namelist()) == ["answer.md", "flow.yaml", "judge.md"]
    desk.flow.delete()
    response = client.post(
        at("agents_flow_add"), {"files": [upload("flow.zip", packed)], "action": "save"}
    )
    assert response.status_code == 302
    flow = models.Flow.objects.get(name="desk")
    assert flow.owner == desk.owner and dict(flow.versions.get().prompts) == PROMPTS


def test_a_new_flow_is_written_from_an_example_that_is_sound(client: Client) -> None:
    response = client.get(at("agents_flow_add"))
    files = response.context["files"]
    values = {"yaml": files.yaml, "path": [*files.prompts], "text": [*files.prompts.values()]}
    assert client.post(at("agents_flow_add"), {**values, "action": "activate"}).status_code == 302
    assert models.Flow.objects.get(name="my_flow").versions.get().is_active
    broken = client.post(at("agents_flow_add"), {"files": [upload("a.zip", b"PK no")]})
    assert broken.status_code == 422 and "cannot be read" in broken.content.decode()


def test_a_run_shows_its_timeline_path_and_review(client: Client, desk: FlowDesk) -> None:
    run = paused(desk)
    assert run.status == "paused", run.error
    text = page(client, "agents_flowrun_page", run.pk)
    assert 'data-decision="send"' in text and "Send this? danger" in text
    assert "graph-node graph-waiting" in text and "graph-edge graph-choice graph-taken" in text
    assert "risk == &quot;high&quot;" in text
    part = client.get(at("agents_flowrun_page", run.pk, part=1)).content.decode()
    assert "flow-state" in part and "<html" not in part
    assert "desk-label" in page(client, "agents_flowrun_changelist", status__exact="paused")
    # What a run holds is on its own page alone.
    assert "prompt_vars" not in page(client, "agents_flowrun_changelist")
    decide_review(run=run, scope=scope_of(desk.owner), decision="drop")
    assert 'data-decision="send"' not in page(client, "agents_flowrun_page", run.pk)
    by_key = client.get(at("agents_flowrun_of", run.key))
    assert by_key["Location"] == at("agents_flowrun_page", run.pk)


def test_a_source_that_failed_is_told_in_the_reader_s_language(desk: FlowDesk) -> None:
    run = paused(desk)
    begun = models.RunEvent.objects.get(run=run, kind="node_started", node="judge")
    fault = ProviderTimeoutError(
        "The source “{name}” did not answer within {timeout_s} s.",
        hint="Try again, or allow more time.",
        name="<b>rows</b>",
        timeout_s="3",
    )
    data = {"counts": {"rows": 0}, "errors": {"rows": str(fault)}}
    event = models.RunEvent.objects.create(
        run=run,
        node="judge",
        visit=begun.visit,
        kind="rag_results",
        data=data,
        seq=run.events.count() + 1000,
    )
    chinese = client_of(desk.owner, "zh-CN")
    assert "did not answer within 3 s." in page(chinese, "agents_flowrun_page", run.pk)
    event.data = {**data, "faults": {"rows": fault.as_dict()}}
    event.save()
    shown = page(chinese, "agents_flowrun_page", run.pk)
    assert "did not answer within" not in shown and "3 秒" in shown
    assert "<b>rows</b>" not in shown and "&lt;b&gt;rows&lt;/b&gt;" in shown
    assert "did not answer within 3 s." in page(
        client_of(desk.owner), "agents_flowrun_page", run.pk
    )


def test_editors_see_how_another_s_run_went_and_not_what_was_said(desk: FlowDesk) -> None:
    run = paused(desk, "danger, my secret")
    group = GroupFactory()
    desk.flow.editor_groups.add(group)
    editor = client_of(UserFactory(permissions=RIGHTS, groups=[group]))
    text = page(editor, "agents_flowrun_page", run.pk)
    assert "graph-waiting" in text and "for its user alone" in text


def test_runners_run_and_cannot_read_or_change_the_texts(desk: FlowDesk) -> None:
    group = GroupFactory()
    desk.flow.runner_groups.add(group)
    client = client_of(UserFactory(permissions=RIGHTS, groups=[group]))
    assert "flow-start" in page(client, "agents_flow_run", desk.flow.pk)
    for name in ("edit", "versions", "export"):
        assert client.get(at(f"agents_flow_{name}", desk.flow.pk)).status_code == 403, name
        if name != "export":
            assert client.post(at(f"agents_flow_{name}", desk.flow.pk)).status_code == 403, name
    assert client.post(at("agents_flow_change", desk.flow.pk), {"title": "x"}).status_code == 403
    run = paused(desk)
    assert client.get(at("agents_flowrun_page", run.pk)).status_code == 404
    stranger = client_of(UserFactory(permissions=RIGHTS))
    for name in ("edit", "versions", "run", "export"):
        assert stranger.get(at(f"agents_flow_{name}", desk.flow.pk)).status_code == 404, name
    nobody = client_of(UserFactory())
    assert nobody.get(at("agents_flow_run", desk.flow.pk)).status_code == 403
    assert nobody.get(at("agents_flowrun_changelist")).status_code == 403


def test_groups_and_title_are_changed_and_a_flow_at_work_is_not_deleted(
    client: Client, desk: FlowDesk
) -> None:
    group = GroupFactory()
    desk.owner.groups.add(group)
    values = {"title": "The desk", "runner_groups": [group.pk]}
    assert client.post(at("agents_flow_change", desk.flow.pk), values).status_code == 302
    desk.flow.refresh_from_db()
    assert desk.flow.title == "The desk" and desk.flow.owner == desk.owner
    assert list(desk.flow.runner_groups.all()) == [group]
    version = desk.flow.versions.get()
    run = models.FlowRun.objects.create(version=version, user=desk.owner)
    remove = {"action": "delete_selected", "_selected_action": [desk.flow.pk], "post": "yes"}
    told = client.post(at("agents_flow_changelist"), remove, follow=True).content.decode()
    assert "has runs at work" in told and models.Flow.objects.filter(pk=desk.flow.pk).exists()
    run.delete()
    client.post(at("agents_flow_changelist"), remove)
    assert not models.Flow.objects.filter(pk=desk.flow.pk).exists()


def test_hostile_names_stay_text(client: Client, desk: FlowDesk) -> None:
    evil = FLOW.replace('risk == "high"', "risk == '<script>alert(1)</script>'")
    text = edit(client, desk, "check", evil).content.decode()
    assert "<script>alert" not in text and "&lt;script&gt;alert" in text


def test_the_list_takes_as_many_queries_for_many_flows_as_for_one(
    client: Client, desk: FlowDesk, django_assert_max_num_queries: Any
) -> None:
    for number in range(20):
        flow = models.Flow.objects.create(name=f"f{number}", owner=desk.owner)
        version = models.FlowVersion.objects.create(flow=flow, number=1, yaml=FLOW, is_active=True)
        models.FlowRun.objects.create(version=version, user=desk.owner)
    for name in ("flow", "flowrun"):
        page(client, f"agents_{name}_changelist")
        with django_assert_max_num_queries(14):
            page(client, f"agents_{name}_changelist")


def test_the_page_of_a_run_marks_what_no_source_says(client: Client, desk: FlowDesk) -> None:
    run = paused(desk, "fine")
    text = "Every 30 days [1]. Mars <owns> it."
    statements = [
        {"start": 0, "end": 18, "verdict": "cited", "citations": [1], "doc_id": ""},
        {"start": 19, "end": 34, "verdict": "unsupported", "citations": [], "doc_id": ""},
    ]
    cited = {
        "number": 1,
        "verdict": "verified",
        "file_name": "pump.txt",
        "page": 3,
        "found": "30 d",
    }
    models.FlowRun.objects.filter(pk=run.pk).update(
        status="done",
        answer=text,
        citations=[cited],
        grounding={"verdict": "partly", "n_statements": 2, "n_found": 1, "statements": statements},
    )
    shown = page(client, "agents_flowrun_page", run.pk)
    assert "1 of 2 statements found in the sources" in shown
    assert '<mark class="desk-unheld">Mars &lt;owns&gt; it.</mark>' in shown
    assert "not found in the sources</span>" in shown and "Every 30 days [1]. <mark" in shown
    assert "pump.txt, p. 3: “30 d”" in shown


def test_from_the_answer_of_a_run_one_comes_to_the_prompt_that_made_it(
    client: Client, desk: FlowDesk
) -> None:
    run = paused(desk, "fine")
    shown = page(client, "agents_flowrun_page", run.pk)
    assert "?visit=1%3Aanswer#opened" in shown and "How this answer came about" in shown
    assert 'data-visit="1:judge"' in shown and "Judge the risk as JSON" not in shown
    opened = client.get(at("agents_flowrun_page", run.pk, visit="1:answer")).content.decode()
    assert "Write the answer for" in opened and 'id="opened" open' in opened
    part = client.get(at("agents_flowrun_page", run.pk, part="visit", visit="1:judge"))
    text = part.content.decode()
    assert "Judge the risk as JSON" in text and "<html" not in text
    assert "risk == &quot;high&quot;" in text and "does not hold" in text and "risk = low" in text
    gone = client.get(at("agents_flowrun_page", run.pk, part="visit", visit="9:judge"))
    assert gone.status_code == 404


def test_a_failed_run_opens_where_it_failed_and_others_see_no_words(desk: FlowDesk) -> None:
    run = paused(desk, "broken")
    shown = page(client_of(desk.owner), "agents_flowrun_page", run.pk)
    assert run.status == "error" and "Judge the risk as JSON" in shown and "it is down" in shown
    group = GroupFactory()
    desk.flow.editor_groups.add(group)
    editor = client_of(UserFactory(permissions=RIGHTS, groups=[group]))
    assert "Judge the risk as JSON" not in page(editor, "agents_flowrun_page", run.pk)


def test_two_runs_stand_side_by_side(client: Client, desk: FlowDesk) -> None:
    first, second = paused(desk, "fine"), paused(desk, "danger")
    text = page(client, "agents_flowrun_compare", second.pk)
    assert str(first.key)[:8] in text and "differs" not in text
    response = client.get(at("agents_flowrun_compare", second.pk, **{"with": first.pk}))
    text = response.content.decode()
    assert "only one run came here" in text and "differs" in text
    assert "Take the stairs, not the lift." in text
    stranger = client_of(UserFactory(permissions=RIGHTS))
    assert stranger.get(at("agents_flowrun_compare", second.pk)).status_code == 404


def test_the_form_asks_for_the_inputs_of_its_version(client: Client, desk: FlowDesk) -> None:
    typed = FLOW.replace(
        "inputs: {region: where the person lives}",
        "inputs: {region: {type: text, choices: [north, <b>], required: true}, n: {type: integer}}",
    )
    assert edit(client, desk, "activate", typed).status_code == 302
    text = page(client, "agents_flow_run", desk.flow.pk)
    assert 'data-input="region" data-type="json" required' in text
    assert '<option value="&quot;&lt;b&gt;&quot;">&lt;b&gt;</option>' in text
    assert 'type="number" step="1" data-input="n"' in text
    before = client.get(at("agents_flow_run", desk.flow.pk, version=1)).content.decode()
    assert "where the person lives" in before and 'data-input="n"' not in before
