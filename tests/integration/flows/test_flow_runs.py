"""Runs: followed while they go and afterwards, cancelled, replayed; sources remembered."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from agents import models
from agents.core.chat_events import FlowEvent
from agents.flows.definition.archive import FlowFiles
from agents.flows.runs.control import cancel_flow, rerun_flow
from agents.flows.runs.start import RunRequest, arun_flow, create_run, stream_flow
from agents.flows.runs.worker import FlowWorker, run_in_background, run_to_end
from agents.flows.versions.versions import activate_version, save_flow_version
from rag.core.access import Scope
from rag.core.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    UnknownNameError,
)
from rag.core.hits import Hit
from rag.core.plugins import PLUGINS
from rag.core.sources import SourceQuery, SourceResult
from rag.services.access.api_keys import scope_of
from tests.factories import UserFactory
from tests.integration.flow_world import house as house
from tests.integration.flow_world import resume_flow, run_flow

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("house")]
FLOW = """\
name: news
inputs: {channel: where it was asked}
nodes:
  - name: find
    type: rag
    config: {data_sources: [{type: counting, name: docs, cache_ttl: 60}]}
  - {name: judge, type: agent, config: {prompt: judge.md}}
  - {name: write, type: agent, config: {prompt: write.md}}
edges:
  - {from: find, to: judge}
  - {from: judge, to: write, condition: verdict == "good"}
  - {from: judge, to: END, condition: default}
  - {from: write, to: END}
entry_node: find
"""
PROMPTS = {
    "judge.md": 'Judge as JSON {"verdict": "good|bad"}: {rag_context}',
    "write.md": "Write it for {channel}",
}
SCRIPT = """
answers:
  - {contains: Judge as JSON, answer: {verdict: good}}
  - {contains: Write it for, answer: one two three four, delay_s: DELAY}
"""


class CountingSource:
    """Counts how often it is asked, and by whom."""

    name, label = "counting", "Counting"
    asked: list[tuple[str, Any]] = []

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        pass

    def __init__(self, options: Options) -> None: ...

    def retrieve(self, query: SourceQuery) -> SourceResult:
        self.asked.append((query.text, query.scope.user_id))
        return SourceResult((Hit(text="a fact", rank=1, file_name="f.txt"),))


class Desk:
    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path, self.scope = tmp_path, scope_of(UserFactory())
        version = save_flow_version(files=FlowFiles(FLOW, PROMPTS), scope=self.scope)
        activate_version(version=version, scope=self.scope)
        self.flow = version.flow

    def request(
        self, message: str = "hello", delay_s: float = 0.4, script: str = SCRIPT, **more: Any
    ) -> RunRequest:
        path = self.tmp_path / "s.yaml"
        path.write_text(script.replace("DELAY", str(delay_s)), encoding="utf-8")
        values = {
            "flow": self.flow,
            "scope": self.scope,
            "message": message,
            "model": f"scripted:{path}",
            **more,
        }
        return RunRequest(**values)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setitem(PLUGINS._found["source"], "counting", CountingSource)
    CountingSource.asked = []
    return Desk(tmp_path)


async def all_of(stream: Any) -> list[FlowEvent]:
    return [event async for event in stream]


SPOKEN = ("token", "draft")


async def test_a_stream_tells_everything_in_order(desk: Desk) -> None:
    request = await _in_thread(desk.request)
    events = await all_of(stream_flow(request=request))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    kinds = [(event.kind, event.node) for event in events if event.kind not in SPOKEN]
    assert kinds == [
        ("run_started", ""),
        ("node_started", "find"),
        ("rag_results", "find"),
        ("node_finished", "find"),
        ("route", "find"),
        ("node_started", "judge"),
        ("model_answer", "judge"),
        ("node_finished", "judge"),
        ("route", "judge"),
        ("node_started", "write"),
        ("model_answer", "write"),
        ("node_finished", "write"),
        ("route", "write"),
        ("done", ""),
    ]
    tokens = [(event.node, event.data["text"]) for event in events if event.kind == "token"]
    assert len(tokens) > 1 and {node for node, _ in tokens} == {"write"}
    assert "".join(text for _, text in tokens) == "one two three four"
    drafts = [event for event in events if event.kind == "draft"]
    assert {event.node for event in drafts} == {"judge"}
    assert "verdict" in "".join(event.data["text"] for event in drafts)
    route = next(event for event in events if event.kind == "route" and event.node == "judge")
    assert (route.data["targets"], route.data["condition"]) == (["write"], 'verdict == "good"')
    assert events[-1].data["answer"] == "one two three four"
    assert events[-1].data["variables"]["verdict"] == "good"
    assert all("record" not in event.as_dict()["data"] for event in events)


async def test_who_comes_back_gets_the_rest_and_who_leaves_ends_nothing(desk: Desk) -> None:
    request = await _in_thread(desk.request)
    seen: list[FlowEvent] = []
    stream = stream_flow(request=request)
    async for event in stream:
        seen.append(event)
        if event.kind == "token":
            break
    await stream.aclose()
    run = await models.FlowRun.objects.aget()
    rest = await all_of(FlowWorker.replay(run.pk, after=seen[-1].seq))
    assert [event.seq for event in [*seen, *rest]] == list(range(1, len(seen) + len(rest) + 1))
    assert rest[-1].kind == "done"
    again = await all_of(FlowWorker.replay(run.pk))
    assert [event.as_dict() for event in again[-3:]] == [event.as_dict() for event in rest[-3:]]


def test_a_run_elsewhere_is_followed_through_the_database(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert FlowWorker.poll_s >= 0.5, "a follower asks the database at most twice a second"
    monkeypatch.setattr(FlowWorker, "poll_s", 0.05)
    run = create_run(request=desk.request(delay_s=0.1))

    async def follow() -> list[FlowEvent]:
        async def later() -> None:
            await asyncio.sleep(0.1)
            await run_to_end(run=run)

        task = asyncio.create_task(later())
        events = await all_of(FlowWorker.replay(run.pk))
        await task
        return events

    events = async_to_sync(follow)()
    assert (events[0].kind, events[-1].kind) == ("run_started", "done")


async def test_a_run_at_work_can_be_cancelled(desk: Desk) -> None:
    run = await _in_thread(create_run, request=await _in_thread(desk.request, delay_s=20))
    await run_in_background(run=run)
    events = []
    started = time.monotonic()
    async for event in FlowWorker.replay(run.pk):
        events.append(event)
        if event.kind == "node_started" and event.node == "write":
            await _in_thread(cancel_flow, run=run, scope=desk.scope)
    assert time.monotonic() - started < 8
    assert events[-1].kind == "cancelled"
    await run.arefresh_from_db()
    assert (run.status, run.worker) == ("cancelled", None)
    with pytest.raises(ConflictError):
        await run_to_end(run=run)


async def test_a_cancel_from_another_process_is_noticed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.runtime.worker.HEARTBEAT_S", 0.1)
    run = await _in_thread(create_run, request=await _in_thread(desk.request, delay_s=20))
    await run_in_background(run=run)
    await models.FlowRun.objects.filter(pk=run.pk).aupdate(status="cancelled")
    events = await all_of(FlowWorker.replay(run.pk))
    assert events[-1].kind == "cancelled"


async def test_nobody_else_takes_a_run_that_is_at_work(desk: Desk) -> None:
    run = await _in_thread(create_run, request=await _in_thread(desk.request))
    await run_in_background(run=run)
    with pytest.raises(ConflictError, match="at work already"):
        await run_to_end(run=run)
    assert (await all_of(FlowWorker.replay(run.pk)))[-1].kind == "done"


def test_a_failed_run_goes_on_where_it_failed(desk: Desk) -> None:
    broken = SCRIPT.replace("answer: one two three four, delay_s: DELAY", "error: it is down")
    run = run_flow(request=desk.request(script=broken))
    assert (run.status, run.n_steps) == ("error", 2)
    assert run.error["params"]["reason"] == "it is down"
    desk.request(delay_s=0)
    other = models.FlowRun.objects.get(pk=run.pk)
    other.model = run.model.replace("s.yaml", "./s.yaml")
    other.save()
    done = resume_flow(run=other, scope=desk.scope)
    assert (done.status, done.n_steps, done.error) == ("done", 3, None)
    assert len(CountingSource.asked) == 1


@pytest.mark.parametrize("answers", ["fresh", "recorded"])
def test_a_run_is_replayed_from_any_node(desk: Desk, answers: str) -> None:
    run = run_flow(request=desk.request(delay_s=0, given={"channel": "web"}))
    changed = SCRIPT.replace("one two three four", "something new")
    desk.request(script=changed, delay_s=0)
    replay = rerun_flow(run=run, scope=desk.scope, from_node="write", answers=answers)
    # A script is read once a process by its name.
    replay.model = run.model.replace("s.yaml", f"./././{answers}/../s.yaml")
    (desk.tmp_path / answers).mkdir()
    replay.save()
    done: Any = async_to_sync(run_to_end)(run=replay)
    assert (done.status, done.replay_of, done.n_steps) == ("done", run, 3)
    assert done.state["flow_msgs"][-1]["content"] == (
        "something new" if answers == "fresh" else "one two three four"
    )
    assert done.state["edges_var"]["verdict"] == "good"
    started = done.events.filter(kind="node_started").order_by("seq").values_list("node", flat=True)
    assert list(started) == ["find", "judge", "write"]
    assert len(CountingSource.asked) == 1


def test_a_replay_needs_a_node_of_the_run_and_a_right(desk: Desk) -> None:
    run = run_flow(request=desk.request(delay_s=0))
    with pytest.raises(UnknownNameError, match="Known: find, judge, write"):
        rerun_flow(run=run, scope=desk.scope, from_node="gone")
    with pytest.raises(UnknownNameError, match="Known: fresh, recorded"):
        rerun_flow(run=run, scope=desk.scope, from_node="find", answers="old")
    with pytest.raises(NotFoundError):
        rerun_flow(run=run, scope=scope_of(UserFactory()), from_node="find")


def test_sources_are_remembered_for_the_same_question_and_rights_only(desk: Desk) -> None:
    first = run_flow(request=desk.request(delay_s=0))
    second = run_flow(request=desk.request(delay_s=0))
    assert len(CountingSource.asked) == 1
    assert first.state["rag_results"] == second.state["rag_results"]
    run_flow(request=desk.request("another question", delay_s=0))
    assert len(CountingSource.asked) == 2
    run_flow(request=desk.request(delay_s=0, given={"token_id": "another patient"}))
    assert len(CountingSource.asked) == 3
    run_flow(request=desk.request(delay_s=0, scope=Scope.operator()))
    assert [scope for _, scope in CountingSource.asked] == [desk.scope.user_id] * 3 + [None]


def test_only_who_may_runs_a_flow_and_only_editors_choose_its_model(desk: Desk) -> None:
    reader = scope_of(UserFactory())
    with pytest.raises(NotFoundError, match="There is no flow “news”"):
        run_flow(request=desk.request(scope=reader))
    desk.flow.is_public = True
    desk.flow.save()
    with pytest.raises(ForbiddenError, match="Only editors"):
        run_flow(request=desk.request(scope=reader))
    run = run_flow(request=desk.request(scope=reader, model=""))
    assert run.status == "done"
    # Without a model of its own the installation answers by quoting, which is no JSON.
    assert run.state["edges_var"]["parse_error"] is True


def test_a_version_of_another_flow_is_not_run(desk: Desk) -> None:
    text = FLOW.replace("name: news", "name: secret", 1)
    other = save_flow_version(files=FlowFiles(text, PROMPTS), scope=Scope.operator())
    with pytest.raises(NotFoundError, match="There is no flow “secret”"):
        run_flow(request=desk.request(version=other))


def test_a_superuser_s_run_acts_for_the_superuser(desk: Desk) -> None:
    boss = UserFactory(is_superuser=True)
    run = run_flow(request=desk.request(scope=scope_of(boss), delay_s=0))
    assert (run.user_id, run.is_by_operator, run.start["token_id"]) == (boss.pk, True, str(boss.pk))
    assert CountingSource.asked == [("hello", boss.pk)]


def test_wrong_input_makes_no_run(desk: Desk) -> None:
    with pytest.raises(InvalidInputError, match="The message is empty"):
        run_flow(request=desk.request("  "))
    with pytest.raises(UnknownNameError, match="Known: channel"):
        run_flow(request=desk.request(given={"chanel": "web"}))
    assert models.FlowRun.objects.count() == 0


def test_a_run_that_stays_too_long_ends_with_an_error(desk: Desk) -> None:
    version = save_flow_version(
        files=FlowFiles(FLOW + "timeout_s: 0.6\n", PROMPTS), scope=desk.scope
    )
    run = run_flow(request=desk.request(version=version, delay_s=20))
    assert run.status == "error"
    assert run.error["message"].startswith(("The run took longer", "The model of"))


def test_a_process_that_ends_leaves_its_run_to_others(desk: Desk) -> None:
    run = create_run(request=desk.request(delay_s=20))

    async def stopped() -> None:
        task = asyncio.create_task(run_to_end(run=run))
        await asyncio.sleep(0.3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async_to_sync(stopped)()
    run.refresh_from_db()
    assert (run.status, run.worker, run.seen_at) == ("running", None, None)


async def test_nul_and_half_characters_of_a_message_are_stored(desk: Desk) -> None:
    request = await _in_thread(desk.request, "a\0b\ud800", delay_s=0)
    run = await arun_flow(request=request)
    assert run.start["current_message"]["content"] == "a\ufffdb\ufffd"
    assert run.status == "done"


async def _in_thread(work: Any, *args: Any, **values: Any) -> Any:
    from asgiref.sync import sync_to_async

    return await sync_to_async(work)(*args, **values)
