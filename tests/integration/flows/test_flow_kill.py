"""kill -9 at every node of a run: another process goes on, and nothing that was finished is redone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings as django_settings
from django.db import connection
from django.utils import timezone
from procrastinate.contrib.django.models import ProcrastinateJob

from agents import models
from agents.flows.definition.archive import FlowFiles
from agents.flows.runs.start import RunRequest, create_run
from agents.flows.runs.worker import (
    FlowWorker,
    acquire_lease,
    enqueue_abandoned_runs,
    resume_abandoned,
    run_to_end,
)
from agents.flows.versions.versions import activate_version, save_flow_version
from agents.runtime.worker import LEASE_S, abandoned
from agents.tasks import defer_abandoned_runs_task
from rag.core.access import Scope
from rag.core.errors import ConflictError

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
BASE_DIR = Path(__file__).resolve().parents[3]
N_NODES = 5
PROMPTS = {f"p{n}.md": f"step {n}. {{user_query}}" for n in range(N_NODES)}
FLOW = (
    "name: long\nnodes:\n"
    + "".join(
        f"  - {{name: n{n}, type: agent, config: {{prompt: p{n}.md}}}}\n" for n in range(N_NODES)
    )
    + "edges:\n"
    + "".join(
        f"  - {{from: n{n}, to: {f'n{n + 1}' if n + 1 < N_NODES else 'END'}}}\n"
        for n in range(N_NODES)
    )
    + "entry_node: n0\n"
)
# A model with a side effect that can be counted: a line in a file for each call that was answered.
# For each line on its input it forks a process that works on the run: Django is loaded once.
PARENT = """
import os, signal, sys
import django
from django.conf import settings
django.setup()
settings.DATABASES["default"]["NAME"] = sys.argv[1]
from asgiref.sync import async_to_sync
from agents import models
from agents.flows.engine import graph as flow
from agents.flows.runs.worker import run_to_end
from rag.providers.scripted import ScriptedChatModel
answer = ScriptedChatModel._reply
def counted(self, piece, text, request):
    with open(sys.argv[3], "a") as file:
        file.write(text + "\\n")
    return answer(self, piece, text, request)
ScriptedChatModel._reply = counted
for _ in sys.stdin:
    pid = os.fork()
    if pid == 0:
        async_to_sync(run_to_end)(run=models.FlowRun.objects.get(pk=int(sys.argv[2])))
        os._exit(0)
    print(pid, flush=True)
    os.waitpid(pid, 0)
    print("ended", flush=True)
"""


@pytest.fixture
def run(tmp_path: Path) -> models.FlowRun:
    script = tmp_path / "s.yaml"
    # Long enough to be killed in the middle of a call.
    lines = "".join(
        f"  - {{contains: step {n}, answer: done {n}, delay_s: 0.3}}\n" for n in range(N_NODES)
    )
    script.write_text("answers:\n" + lines, encoding="utf-8")
    version = save_flow_version(files=FlowFiles(FLOW, PROMPTS), scope=Scope.operator())
    activate_version(version=version, scope=Scope.operator())
    request = RunRequest(
        flow=version.flow, scope=Scope.operator(), message="go", model=f"scripted:{script}"
    )
    return create_run(request=request)


@contextmanager
def parent(run: models.FlowRun, log: Path) -> Iterator[subprocess.Popen[str]]:
    name = connection.settings_dict["NAME"]
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "LOG_LEVEL": "ERROR",
        "CITABLE_VAR": str(django_settings.VAR_DIR),
    }
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(name), str(run.pk), str(log)],
        cwd=BASE_DIR,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        yield process


def kill_at(run: models.FlowRun, node: str, process: subprocess.Popen[str]) -> None:
    assert process.stdin and process.stdout
    seen = run.events.count()
    process.stdin.write("go\n")
    pid, end = int(process.stdout.readline()), time.monotonic() + 30
    while not run.events.filter(kind="node_started", node=node, seq__gt=seen).exists():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    assert process.stdout.readline() == "ended\n"


def grow_old(run: models.FlowRun) -> None:
    late = timezone.now() - timedelta(seconds=LEASE_S + 1)
    models.FlowRun.objects.filter(pk=run.pk).update(seen_at=late)


def test_a_run_killed_at_every_node_is_finished_by_others(
    run: models.FlowRun, tmp_path: Path
) -> None:
    log = tmp_path / "calls"
    with parent(run, log) as process:
        for n in range(N_NODES):
            kill_at(run, f"n{n}", process)
            with pytest.raises(ConflictError):
                acquire_lease(run=run)
            grow_old(run)
            assert list(abandoned(models.FlowRun)) == [run]
    done: Any = async_to_sync(run_to_end)(run=run)
    assert (done.status, done.n_steps) == ("done", N_NODES)
    assert [turn["content"] for turn in done.state["flow_msgs"]] == [
        f"done {n}" for n in range(N_NODES)
    ]
    finished = Counter(run.events.filter(kind="node_finished").values_list("node", flat=True))
    assert finished == {f"n{n}": 1 for n in range(N_NODES)}
    # Each of the others was asked for once; the last one here, where nobody counts.
    calls = Counter(log.read_text().split("\n")[:-1])
    assert calls == {f"done {n}": 1 for n in range(N_NODES - 1)}
    assert list(run.events.order_by("seq").values_list("seq", flat=True)) == list(
        range(1, run.events.count() + 1)
    )
    assert run.events.filter(kind="continued").count() == N_NODES


async def adopted(run: models.FlowRun) -> list[bool]:
    """Adopt a run twice, wait for its end, and try once more."""
    tried = [await resume_abandoned(run_id=run.pk), await resume_abandoned(run_id=run.pk)]
    async for _ in FlowWorker.replay(run.pk):
        pass
    return [*tried, await resume_abandoned(run_id=run.pk)]


def test_an_abandoned_run_is_adopted_once(run: models.FlowRun) -> None:
    assert enqueue_abandoned_runs() == 0
    grow_old(run)
    assert async_to_sync(adopted)(run) == [True, False, False]
    run.refresh_from_db()
    assert (run.status, run.n_steps) == ("done", N_NODES)


def test_an_abandoned_run_gets_one_job_however_often_one_looks(run: models.FlowRun) -> None:
    grow_old(run)
    for _ in range(2):
        assert enqueue_abandoned_runs() == 1
    (job,) = ProcrastinateJob.objects.filter(task_name="agents.adopt_run")
    assert (job.queue_name, job.args) == ("flows", {"run_id": run.pk})
    models.FlowRun.objects.update(status="done")
    defer_abandoned_runs_task(timestamp=0)
    assert ProcrastinateJob.objects.count() == 1
