"""kill -9 at every node of a run: another process goes on, and nothing that was finished is redone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
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
from agents.flows.folder import FlowFiles
from agents.services.abandoned_runs import adopt_run, defer_abandoned_runs
from agents.services.claim import STALE_S, abandoned_run_ids, claim
from agents.services.continue_run import continue_run
from agents.services.flow_versions import activate_version, save_flow_version
from agents.services.start_run import RunRequest, start_run
from agents.tasks import adopt_run_task, defer_abandoned_runs_task
from rag.core.access import Scope
from rag.core.errors import ConflictError

pytestmark = pytest.mark.django_db(transaction=True)
BASE_DIR = Path(__file__).resolve().parents[2]
N_NODES = 5
PROMPTS = {f"p{n}.md": f"step {n}. {{user_query}}" for n in range(N_NODES)}
FLOW = "name: long\nnodes:\n" + "".join(
    f"  - {{name: n{n}, type: agent, config: {{prompt: p{n}.md}}}}\n" for n in range(N_NODES)
) + "edges:\n" + "".join(
    f"  - {{from: n{n}, to: {f'n{n + 1}' if n + 1 < N_NODES else 'END'}}}\n" for n in range(N_NODES)
) + "entry_node: n0\n"  # fmt: skip
# A model with a side effect that can be counted: a line in a file for each call that was answered.
CHILD = """
import sys, os
from pathlib import Path
import django
from django.conf import settings
django.setup()
settings.DATABASES["default"]["NAME"] = sys.argv[1]
from asgiref.sync import async_to_sync
from agents import models
from agents.services.continue_run import continue_run
from rag.providers.scripted import ScriptedChatModel
answer = ScriptedChatModel._reply
def counted(self, piece, text, request):
    with open(sys.argv[3], "a") as file:
        file.write(text + "\\n")
    return answer(self, piece, text, request)
ScriptedChatModel._reply = counted
async_to_sync(continue_run)(run=models.FlowRun.objects.get(pk=int(sys.argv[2])))
"""


@pytest.fixture
def run(tmp_path: Path) -> models.FlowRun:
    script = tmp_path / "s.yaml"
    lines = "".join(
        f"  - {{contains: step {n}, answer: done {n}, delay_s: 0.3}}\n" for n in range(N_NODES)
    )
    script.write_text("answers:\n" + lines, encoding="utf-8")
    version = save_flow_version(files=FlowFiles(FLOW, PROMPTS), scope=Scope.operator())
    activate_version(version=version, scope=Scope.operator())
    request = RunRequest(
        flow=version.flow, scope=Scope.operator(), message="go", model=f"scripted:{script}"
    )
    return start_run(request=request)


def child(run: models.FlowRun, log: Path) -> subprocess.Popen[bytes]:
    name = connection.settings_dict["NAME"]
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "project.settings", "LOG_LEVEL": "ERROR",
                                "CITABLE_VAR": str(django_settings.VAR_DIR)}  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(name), str(run.pk), str(log)], cwd=BASE_DIR,
        env=environment,
    )  # fmt: skip


def wait_for(run: models.FlowRun, node: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 30
    while not run.events.filter(kind="node_started", node=node).exists():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.02)


def grow_old(run: models.FlowRun) -> None:
    late = timezone.now() - timedelta(seconds=STALE_S + 1)
    models.FlowRun.objects.filter(pk=run.pk).update(seen_at=late)


def test_a_run_killed_at_every_node_is_finished_by_others(
    run: models.FlowRun, tmp_path: Path
) -> None:
    log = tmp_path / "calls"
    for n in range(N_NODES):
        process = child(run, log)
        wait_for(run, f"n{n}", process)
        process.kill()
        process.wait()
        with pytest.raises(ConflictError):
            claim(run=run)
        grow_old(run)
        assert abandoned_run_ids() == [run.pk]
    done: Any = async_to_sync(continue_run)(run=run)
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


def test_an_abandoned_run_is_adopted_once(run: models.FlowRun) -> None:
    assert defer_abandoned_runs(defer=None) == 0
    grow_old(run)
    assert adopt_run(run_id=run.pk) is True
    assert adopt_run(run_id=run.pk) is False
    run.refresh_from_db()
    assert run.status == "done"


def test_an_abandoned_run_gets_one_job_however_often_one_looks(run: models.FlowRun) -> None:
    grow_old(run)
    for _ in range(2):
        assert defer_abandoned_runs(defer=adopt_run_task) == 1
    (job,) = ProcrastinateJob.objects.filter(task_name="agents.adopt_run")
    assert (job.queue_name, job.args) == ("flows", {"run_id": run.pk})
    adopt_run_task(run_id=run.pk)
    run.refresh_from_db()
    assert run.status == "done"
    defer_abandoned_runs_task(timestamp=0)
    assert ProcrastinateJob.objects.count() == 1
