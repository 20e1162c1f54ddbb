"""Running flows over HTTP: told in one piece, decided, cancelled, replayed, and by whom."""

from __future__ import annotations

from typing import Any

import pytest

from agents import models
from tests.edges.api_client import error_of, ok
from tests.edges.flow_desk import FlowDesk
from tests.edges.flow_desk import flow_desk as flow_desk
from tests.factories import GroupFactory, StoreFactory, UserFactory
from tests.integration.agent_world import sse_events

pytestmark = pytest.mark.django_db


def test_a_run_is_told_with_its_nodes(flow_desk: FlowDesk) -> None:
    told = flow_desk.run("which way?", given={"region": "north"})
    assert (told["status"], told["error"]) == ("done", None)
    assert told["answer"] == "Take the stairs, not the lift."
    assert told["variables"] == {"risk": "low", "parse_error": False}
    assert (told["flow"], told["version"], told["n_steps"]) == ("desk", 1, 2)
    assert (told["message"], told["given"]) == ("which way?", {"region": "north"})
    judge, answer = told["nodes"]
    assert [judge["node"], answer["node"]] == ["judge", "answer"]
    assert judge["status"] == answer["status"] == "done"
    assert judge["duration_ms"] > 0 and judge["input_tokens"] > 0 and judge["output_tokens"] > 0
    assert judge["input_tokens"] + answer["input_tokens"] == told["input_tokens"]
    assert judge["models"] == [f"scripted:{flow_desk.script}"]
    assert (judge["route"]["targets"], judge["route"]["condition"]) == (["answer"], "default")
    assert judge["variables"] == {"risk": "low", "parse_error": False}
    read = ok(flow_desk.client().get(flow_desk.path(told)))
    assert read.pop("state")["flow_msgs"][-1]["content"] == told["answer"]
    assert read == told


def test_a_run_that_is_sent_again_runs_once(flow_desk: FlowDesk) -> None:
    client = flow_desk.client()
    body = {"message": "which way?"}

    def sent(path: str, **more: Any) -> Any:
        headers = {"idempotency-key": "one"}
        address = f"/api/flows/desk/{path}"
        return client.post(address, body | more, content_type="application/json", headers=headers)

    first, again = ok(sent("run")), ok(sent("run"))
    assert first["key"] == again["key"] and models.FlowRun.objects.count() == 1
    error_of(sent("run", message="another"), 409)
    error_of(sent("stream"), 409)


def test_a_failed_run_says_where_and_goes_on_when_it_is_asked_to(flow_desk: FlowDesk) -> None:
    told = flow_desk.run("broken")
    assert told["status"] == "error"
    assert told["error"]["code"] == "provider" and "it is down" in told["error"]["message"]
    assert [(one["node"], one["status"]) for one in told["nodes"]] == [("judge", "failed")]
    assert told["nodes"][0]["error"] == told["error"]
    again = ok(flow_desk.client().send("post", flow_desk.path(told, "/resume"), {}))
    assert again["status"] == "error"
    flow_desk.run("fine")
    error_of(
        flow_desk.client().send("post", flow_desk.path(flow_desk.run("fine"), "/resume"), {}), 409
    )


def test_errors_are_worded_for_the_reader(flow_desk: FlowDesk) -> None:
    told = flow_desk.run("broken")
    chinese = ok(flow_desk.client(language="zh-hans").get(flow_desk.path(told)))
    assert chinese["error"]["message"] != told["error"]["message"]
    assert chinese["error"]["params"] == told["error"]["params"]


def test_a_review_is_decided_over_http(flow_desk: FlowDesk) -> None:
    told = flow_desk.run("danger")
    assert told["status"] == "paused" and told["ended_at"] is None
    assert told["reviews"] == [
        {
            "node": "review",
            "visit": 1,
            "message": "Send this? danger",
            "decisions": ["send", "drop"],
            "values": [{"name": "user_query", "value": "danger", "set_by": "person", "node": ""}],
        }
    ]
    assert [one["status"] for one in told["nodes"]] == ["done", "waiting"]
    path = flow_desk.path(told, "/resume")
    refused = error_of(flow_desk.client().send("post", path, {"decision": "maybe"}), 400)
    assert "Known: drop, send" in refused["hint"]
    error_of(flow_desk.client().send("post", path, {}), 400)
    done = ok(flow_desk.client().send("post", path, {"decision": "send", "node": "review"}))
    assert (done["status"], done["variables"]["review_decision"]) == ("done", "send")
    assert [one["node"] for one in done["nodes"]] == ["judge", "review", "answer"]
    error_of(flow_desk.client().send("post", path, {"decision": "send"}), 409)


def test_a_run_is_replayed_from_a_node(flow_desk: FlowDesk) -> None:
    told = flow_desk.run("which way?")
    path = flow_desk.path(told, "/replay")
    again = ok(
        flow_desk.client().send("post", path, {"from_node": "answer", "answers": "recorded"})
    )
    assert (again["status"], again["answer"]) == ("done", told["answer"])
    assert (again["replay_of"], again["has_recorded_answers"]) == (told["key"], True)
    fresh = ok(flow_desk.client().send("post", path, {"from_node": "judge"}))
    assert (fresh["status"], fresh["has_recorded_answers"]) == ("done", False)
    refused = error_of(flow_desk.client().send("post", path, {"from_node": "gone"}), 400)
    assert "Known: answer, judge" in refused["hint"]
    listed = ok(flow_desk.client().get("/api/flows/desk/runs"))["results"]
    assert [one["key"] for one in listed] == [fresh["key"], again["key"], told["key"]]
    assert "nodes" not in listed[0]


def test_who_does_not_wait_is_told_that_it_runs(flow_desk: FlowDesk) -> None:
    # In one piece with the loop of this request: what nobody waits for is left to others.
    answer = flow_desk.client().send(
        "post", "/api/flows/desk/run", {"message": "slowly", "wait_s": 0.1}
    )
    assert answer.status_code == 202
    told = answer.json()
    assert (told["status"], told["answer"], told["duration_ms"]) == ("running", "", None)
    cancelled = ok(flow_desk.client().send("post", flow_desk.path(told, "/cancel"), {}))
    assert cancelled["status"] == "cancelled"
    error_of(flow_desk.client().send("post", flow_desk.path(told, "/cancel"), {}), 409)
    listed = flow_desk.client().get("/api/flows/desk/runs?status=cancelled")
    assert [one["key"] for one in ok(listed)["results"]] == [told["key"]]


async def test_a_stream_tells_all_and_can_be_taken_up_again(
    flow_desk: FlowDesk, settings: Any
) -> None:
    settings.AGENTS = {**settings.AGENTS, "PING_S": 0.01}
    text = await flow_desk.streamed("post", "/api/flows/desk/stream", {"message": "which way?"})
    assert text.startswith("retry: 2000\n\n")
    told = [one for one in sse_events(text) if one[1] != "ping"]
    assert [seq for seq, _, _ in told] == list(range(1, len(told) + 1))
    kinds = [kind for _, kind, _ in told]
    assert kinds[:2] == ["run_started", "node_started"] and kinds[-1] == "done"
    assert {"token", "model_answer", "node_finished", "route"} <= set(kinds)
    assert told[1][2]["node"] == "judge"
    tokens = [
        data["text"] for _, kind, data in told if kind == "token" and data["node"] == "answer"
    ]
    assert "".join(tokens) == told[-1][2]["answer"] == "Take the stairs, not the lift."
    key = told[0][2]["run"]
    rest = await flow_desk.streamed(
        "get",
        f"/api/flows/desk/runs/{key}/events",
        **{"Last-Event-ID": str(told[-3][0])},
    )
    assert [one for one in sse_events(rest) if one[1] != "ping"] == told[-2:]
    text = await flow_desk.streamed("get", f"/api/flows/desk/runs/{key}/events?after=999")
    assert {kind for _, kind, _ in sse_events(text)} <= {"ping"}


async def test_a_stream_ends_with_its_error_or_its_review(flow_desk: FlowDesk) -> None:
    text = await flow_desk.streamed("post", "/api/flows/desk/stream", {"message": "broken"})
    _, kind, data = sse_events(text)[-1]
    assert (kind, data["error"]["code"]) == ("error", "provider")
    assert "it is down" in data["error"]["message"]
    text = await flow_desk.streamed("post", "/api/flows/desk/stream", {"message": "danger"})
    _, kind, data = sse_events(text)[-1]
    assert (kind, data["reviews"][0]["decisions"]) == ("paused", ["send", "drop"])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"message": " "}, 400),
        ({"message": "x", "given": {"nothing": 1}}, 400),
        ({"message": "x", "given": {"history_messages": "no list"}}, 400),
        ({"message": "x", "version": 9}, 404),
        ({"message": "x", "model": "nobody:x"}, 400),
        ({"message": "x", "more": 1}, 422),
        ({"message": "x", "wait_s": 1e9}, 422),
        ({}, 422),
    ],
)
def test_wrong_input_makes_no_run(flow_desk: FlowDesk, body: Any, status: int) -> None:
    error_of(flow_desk.client().send("post", "/api/flows/desk/run", body), status)
    assert not models.FlowRun.objects.exists()


def test_only_those_who_may_run_it_see_it(flow_desk: FlowDesk) -> None:
    stranger = UserFactory()
    client = flow_desk.client(stranger)
    told = flow_desk.run("which way?")
    for method, path in [
        ("post", "/api/flows/desk/run"),
        ("post", "/api/flows/desk/stream"),
        ("get", "/api/flows/desk"),
        ("get", "/api/flows/desk/runs"),
        ("get", flow_desk.path(told)),
        ("get", flow_desk.path(told, "/events")),
        ("post", flow_desk.path(told, "/cancel")),
        ("post", flow_desk.path(told, "/replay")),
    ]:
        body = {"message": "x", "from_node": "judge"} if method == "post" else None
        body = {"from_node": "judge"} if path.endswith("replay") else body
        body = {"message": "x"} if path.endswith(("run", "stream")) else body
        error_of(client.send(method, path, body), 404)
    assert client.get("/api/flows").json()["results"] == []
    # A key for some stores opens no flow, which may ask databases too.
    limited = flow_desk.client(stores=[StoreFactory(owner=flow_desk.owner)])
    error_of(limited.send("post", "/api/flows/desk/run", {"message": "x"}), 404)
    error_of(flow_desk.client().__class__().get("/api/flows/desk"), 401)


def test_a_runner_sees_their_own_runs_and_an_editor_how_others_went(flow_desk: FlowDesk) -> None:
    runners = GroupFactory()
    flow_desk.flow.runner_groups.add(runners)
    runner, other = UserFactory(groups=[runners]), UserFactory(groups=[runners])
    told = flow_desk.run("danger", runner, given={"region": "my street"})
    assert ok(flow_desk.client(runner).get(flow_desk.path(told)))["message"] == "danger"
    error_of(flow_desk.client(other).get(flow_desk.path(told)), 404)
    assert ok(flow_desk.client(other).get("/api/flows/desk/runs"))["results"] == []
    seen = ok(flow_desk.client().get(flow_desk.path(told)))
    assert (seen["status"], seen["reviews"][0]["node"]) == ("paused", "review")
    hidden = [seen[name] for name in ("message", "given", "answer", "variables", "state")]
    assert hidden == [None] * 5 and "variables" not in seen["nodes"][0]
    error_of(flow_desk.client().get(flow_desk.path(told, "/events")), 404)
    refused = error_of(
        flow_desk.client(runner).send(
            "post", flow_desk.path(told, "/resume"), {"decision": "send"}
        ),
        403,
    )
    assert "editors" in refused["message"]
    done = ok(
        flow_desk.client().send("post", flow_desk.path(told, "/resume"), {"decision": "drop"})
    )
    assert (done["status"], done["answer"]) == ("done", None)
    refused = error_of(
        flow_desk.client(runner).send(
            "post", "/api/flows/desk/run", {"message": "x", "given": {"token_id": "1"}}
        ),
        403,
    )
    assert "token_id" in refused["hint"]


def test_a_key_to_read_runs_flows_and_decides_nothing(flow_desk: FlowDesk) -> None:
    reader = flow_desk.client(rights=["read"])
    told = ok(reader.send("post", "/api/flows/desk/run", {"message": "danger"}))
    error_of(reader.send("post", flow_desk.path(told, "/resume"), {"decision": "send"}), 403)
    error_of(reader.send("post", "/api/flows/desk/rollback", {}), 403)


def test_a_node_of_a_run_is_looked_into(flow_desk: FlowDesk) -> None:
    told = flow_desk.run("which way?", given={"region": "north"})
    seen = ok(flow_desk.client().get(flow_desk.path(told, "/visits/judge/1")))
    assert (
        seen["inputs"]["message"] == "which way?" and seen["inputs"]["given"]["region"] == "north"
    )
    assert "Judge the risk as JSON" in seen["calls"][0]["messages"][0]["content"]
    assert seen["route"]["tests"][0]["values"] == {"risk": "low"}
    error_of(flow_desk.client().get(flow_desk.path(told, "/visits/judge/2")), 404)
