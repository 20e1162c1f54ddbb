"""Flows as resources: taken in as JSON and zip, checked, compared, rolled back; by whom."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest
from django.test import Client

from agents import models
from agents.core.nodes import NODE_TYPES
from tests.edges.api_client import KeyClient, client_for, error_of, ok
from tests.edges.flow_desk import FLOW, PROMPTS, RIGHTS, FlowDesk
from tests.edges.flow_desk import flow_desk as flow_desk
from tests.factories import GroupFactory, StoreFactory, UserFactory

pytestmark = pytest.mark.django_db
NEW = FLOW.replace("name: desk", "name: fresh")


def folder(yaml: str = NEW, **prompts: str) -> dict[str, Any]:
    return {"files": {"flow.yaml": yaml, **PROMPTS, **prompts}}


def zipped(texts: dict[str, str | bytes]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
    return written.getvalue()


def take(client: KeyClient, raw: bytes) -> Any:
    return client.post("/api/flows", raw, content_type="application/zip")


def test_a_flow_lives_from_post_to_delete(flow_desk: FlowDesk) -> None:
    client = flow_desk.client()
    staff = GroupFactory(name="staff")
    made = ok(client.send("post", "/api/flows", {**folder(), "note": "the first"}), 201)
    assert made == {"flow": "fresh", "version": 1, "is_active": True, "findings": []}
    read = ok(client.get("/api/flows/fresh"))
    assert (read["active_version"], read["may_edit"]) == (1, True)
    assert read["owner"] == flow_desk.owner.username
    assert read["inputs"] == {"region": "where the person lives"}
    assert read["input_schema"]["properties"] == {
        "region": {"description": "where the person lives"}
    }
    changes = {"title": "安全", "runner_groups": ["staff"], "is_public": False}
    error_of(client.send("patch", "/api/flows/fresh", changes), 400)
    flow_desk.owner.groups.add(staff)
    changed = ok(client.send("patch", "/api/flows/fresh", changes))
    assert (changed["title"], changed["runner_groups"]) == ("安全", ["staff"])
    runner = flow_desk.client(UserFactory(groups=[staff]))
    seen = ok(runner.get("/api/flows/fresh"))
    assert seen["may_edit"] is False and not {"owner", "runner_groups"} & set(seen)
    assert [one["name"] for one in ok(client.get("/api/flows?name=ESH"))["results"]] == ["fresh"]
    assert client.delete("/api/flows/fresh").status_code == 204
    error_of(client.get("/api/flows/fresh"), 404)


def test_a_flow_whose_node_type_is_gone_says_so(
    flow_desk: FlowDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ok(flow_desk.client().get("/api/flows/desk"))["fault"] is None
    monkeypatch.delitem(NODE_TYPES, "human_review")
    told = ok(flow_desk.client().get("/api/flows/desk"))
    assert told["inputs"] == {} and "unknown type “human_review”" in told["fault"]


def test_lists_go_page_by_page(flow_desk: FlowDesk) -> None:
    client = flow_desk.client()
    for name in ("a", "b"):
        ok(client.send("post", "/api/flows", folder(FLOW.replace("desk", name, 1))), 201)
    first = ok(client.get("/api/flows?limit=2"))
    assert [one["name"] for one in first["results"]] == ["a", "b"]
    rest = ok(client.get(first["next"].removeprefix("http://testserver")))
    assert ([one["name"] for one in rest["results"]], rest["next"]) == (["desk"], None)


def test_a_version_with_errors_is_refused_with_all_of_them_and_kept_on_request_only(
    flow_desk: FlowDesk,
) -> None:
    client = flow_desk.client()
    bad = FLOW.replace("to: answer, condition: default", "to: gone, condition: default")
    bad = bad.replace("prompt: answer.md", "prompt: nope.md")
    error = error_of(client.send("post", "/api/flows", folder(bad)), 400)
    assert error["params"]["n"] == "2" and "8:" in error["message"]
    assert "gone" in error["message"] and "nope.md" in error["message"]
    assert ok(client.get("/api/flows/desk"))["active_version"] == 1
    found = ok(client.get("/api/flows/desk/versions"))["results"]
    assert [(one["number"], one["is_active"]) for one in found] == [(1, True)]
    told = ok(client.send("post", "/api/flows", {**folder(bad), "activate": False}), 201)
    assert (told["version"], told["is_active"]) == (2, False)
    assert [one["line"] for one in told["findings"] if one["level"] == "error"] == [5, 8]
    error_of(client.send("post", "/api/flows/desk/versions/2/activate"), 400)


def test_a_folder_is_checked_without_being_saved(flow_desk: FlowDesk) -> None:
    client = flow_desk.client()
    found = ok(client.send("post", "/api/flows/fresh/check", folder(NEW.replace("region:", "x:"))))
    assert [(one["level"], one["line"]) for one in found] == [("error", 5)]
    assert "{region}" in found[0]["message"]
    assert ok(client.send("post", "/api/flows/fresh/check", folder())) == []
    error_of(client.send("post", "/api/flows/fresh/check", folder("nodes: [")), 400)
    assert not models.Flow.objects.filter(name="fresh").exists()
    tool = folder(NEW.replace("prompt: answer.md", "prompt: answer.md, tools: [gone]"))
    chinese = flow_desk.client(language="zh-hans")
    (told,) = ok(chinese.send("post", "/api/flows/x/check", tool))
    assert "gone" in told["message"] and "Unknown" not in told["message"]


def test_the_language_is_published_with_all_that_is_installed(flow_desk: FlowDesk) -> None:
    told = ok(flow_desk.client(language="zh-hans").get("/api/flow-schema"))
    kinds = {
        one["const"]: one["title"]
        for one in told["$defs"]["NodeDefinition"]["properties"]["type"]["oneOf"]
    }
    assert kinds.keys() == NODE_TYPES.keys() and kinds["human_review"] == "人工审核"
    sources = told["$defs"]["DataSourceConfig"]["properties"]["type"]["oneOf"]
    assert {"database", "api", "vector_store"} <= {one["const"] for one in sources}
    error_of(Client().get("/api/flow-schema"), 401)


def test_versions_are_compared_activated_and_rolled_back(flow_desk: FlowDesk) -> None:
    client = flow_desk.client()
    files = {**folder(FLOW), "activate": False}
    files["files"]["answer.md"] = "Say it in {region}."
    assert ok(client.send("post", "/api/flows", files), 201)["version"] == 2
    told = ok(client.get("/api/flows/desk/versions/2/diff"))
    assert (told["old"], told["new"]) == (1, 2)
    assert "-Write the answer for {region}.\n+Say it in {region}." in told["diff"]
    assert ok(client.get("/api/flows/desk/versions/1/diff?against=1"))["diff"] == ""
    error_of(client.get("/api/flows/desk/versions/1/diff?against=one"), 400)
    error_of(client.get("/api/flows/desk/versions/1/diff?against=99"), 404)
    assert ok(client.send("post", "/api/flows/desk/versions/2/activate"))["is_active"] is True
    assert ok(client.get("/api/flows/desk"))["active_version"] == 2
    read = ok(client.get("/api/flows/desk/versions/2"))
    assert read["files"]["answer.md"] == "Say it in {region}."
    assert ok(client.send("post", "/api/flows/desk/rollback"))["number"] == 1
    error_of(client.send("post", "/api/flows/desk/rollback"), 409)
    error_of(client.get("/api/flows/desk/versions/9"), 404)


def test_what_is_exported_can_be_taken_in_again(flow_desk: FlowDesk) -> None:
    client = flow_desk.client()
    told = ok(client.get("/api/flows/desk/export"))
    assert told["files"] == {"flow.yaml": FLOW, **PROMPTS}
    assert ok(client.send("post", "/api/flows", told), 201)["version"] == 1
    answer = client.get("/api/flows/desk/export?form=zip&version=1")
    assert (answer["Content-Type"], "desk-1.zip" in answer["Content-Disposition"]) == (
        "application/zip",
        True,
    )
    assert take(client, answer.content).json()["version"] == 1
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        texts = {f"top/{name}": archive.read(name) for name in archive.namelist()}
    other = {**texts, "top/answer.md": b"Other.", "top/cases.yaml": b"cases: []", "READ.me": b"x"}
    assert ok(take(client, zipped(other)), 201)["version"] == 2
    error_of(client.get("/api/flows/desk/export?version=x"), 400)
    assert "json, zip" in error_of(client.get("/api/flows/desk/export?form=xml"), 400)["hint"]


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"no zip", 400),
        (zipped({"a.md": "x"}), 404),
        (zipped({"flow.yaml": FLOW, "../out.md": "x"}), 400),
        (zipped({"flow.yaml": FLOW, "a.md": b"\xff\xfe\x00"}), 400),
        (zipped({"flow.yaml": FLOW, "a.md": "x" * 500_001}), 400),
        (zipped({"flow.yaml": FLOW, **{f"{n}.md": "x" for n in range(202)}}), 400),
        (zipped({"flow.yaml": FLOW})[:-30], 400),
    ],
)
def test_archives_that_are_none_are_refused(flow_desk: FlowDesk, raw: bytes, status: int) -> None:
    error_of(take(flow_desk.client(), raw), status)
    assert models.FlowVersion.objects.count() == 1


@pytest.mark.parametrize(
    "body",
    [{}, {"files": {}}, {"files": {"flow.yaml": 1}}, {"files": "x"}, {**folder(), "more": 1}],
)
def test_bodies_that_hold_no_folder_are_refused(flow_desk: FlowDesk, body: Any) -> None:
    error_of(flow_desk.client().send("post", "/api/flows", body), 400)


def test_flows_are_made_and_changed_by_those_who_may(flow_desk: FlowDesk) -> None:
    plain = client_for(UserFactory())
    error_of(plain.send("post", "/api/flows", folder()), 403)
    error_of(client_for(flow_desk.owner, rights=["read"]).send("post", "/api/flows", folder()), 403)
    limited = flow_desk.client(stores=[StoreFactory(owner=flow_desk.owner)])
    error_of(limited.send("post", "/api/flows", folder()), 403)
    other = client_for(UserFactory(permissions=RIGHTS))
    error_of(other.send("post", "/api/flows", folder(FLOW)), 409)
    flow_desk.flow.is_public = True
    flow_desk.flow.save()
    for method, path in [
        ("patch", "/api/flows/desk"),
        ("delete", "/api/flows/desk"),
        ("get", "/api/flows/desk/versions"),
        ("get", "/api/flows/desk/versions/1"),
        ("get", "/api/flows/desk/export"),
        ("post", "/api/flows/desk/versions/1/activate"),
        ("post", "/api/flows/desk/rollback"),
        ("get", "/api/flows/desk/versions/1/diff"),
    ]:
        error_of(other.send(method, path, {"title": "x"} if method == "patch" else None), 403)
    assert ok(other.get("/api/flows/desk"))["may_edit"] is False
    error_of(flow_desk.client().send("patch", "/api/flows/desk", {"name": "x"}), 400)


def test_a_flow_at_work_is_not_deleted(flow_desk: FlowDesk) -> None:
    version = flow_desk.flow.versions.get()
    models.FlowRun.objects.create(version=version, user=flow_desk.owner)
    error = error_of(flow_desk.client().delete("/api/flows/desk"), 409)
    assert "runs at work (1)" in error["message"]
