"""The guide “Write a flow”: its files are written, its commands run, its requests sent."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command

from agents import models
from agents.core.nodes import NODE_TYPES
from agents.flows.definition.archive import FlowFiles
from agents.flows.definition.state import initial_state
from agents.flows.versions.dry_run import DryRunLog, FlowCase
from agents.flows.versions.load import compiled_graph_of_files
from agents.flows.versions.versions import import_flow
from rag.services.access.api_keys import create_key, scope_of
from rag.services.wiring.registry import model_of_script
from tests.edges.api_client import KeyClient
from tests.edges.flow_desk import RIGHTS, streamed
from tests.factories import FileFactory, StoreFactory, UserFactory, publish
from tests.integration.agent_world import sse_events
from tests.integration.flow_world import house as house

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "write-a-flow.md"
BLOCKS = re.findall(r"(?ms)^```(\w+)\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"))
FILES = {
    # The first line names the file; prompts do not begin with it.
    text.partition("\n")[0].removeprefix("# "): text.partition("\n")[2] if kind == "text" else text
    for kind, text in BLOCKS
    if kind in ("yaml", "text", "python")
}
# Each command with what it says.
COMMANDS = [
    (first.removeprefix("$ "), rest)
    for kind, text in BLOCKS
    if kind == "console"
    for first, _, rest in (part.partition("\n") for part in re.split(r"(?m)^(?=\$ )", text) if part)
]
REQUESTS = [
    shlex.split(line)
    for kind, text in BLOCKS
    if kind == "sh"
    for line in text.replace("\\\n", " ").split("\n\n")
]


@pytest.fixture
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, house: None, transactional_db: None
) -> Path:
    """A folder with the guide's files, one of them with its mistake, and the store that it names."""
    files = {
        "broken/flow.yaml": FILES["refunds/flow.yaml"].replace(
            "{from: review, to: answer}", "{from: review, to: answr}"
        )
    }
    for name, text in {**FILES, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    shutil.copytree(tmp_path / "refunds" / "prompts", tmp_path / "broken" / "prompts")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def owner() -> Any:
    """Whoever writes the flow, with what rag_ingest would have made."""
    user = UserFactory(permissions=RIGHTS)
    store = StoreFactory(name="shop_terms", owner=user)
    publish(FileFactory(store=store, name="terms.md"), FILES["refunds/documents/terms.md"])
    return user


def test_all_blocks_are_tried() -> None:
    assert {kind for kind, _ in BLOCKS} == {"yaml", "text", "python", "console", "sh"}
    assert sorted(FILES) == [
        "answers.yaml",
        "parcels/cases.yaml",
        "parcels/flow.yaml",
        "refunds/cases.yaml",
        "refunds/documents/terms.md",
        "refunds/flow.yaml",
        "refunds/prompts/answer.md",
        "refunds/prompts/judge.md",
        "shop_nodes.py",
    ]
    assert (len(COMMANDS), len(REQUESTS)) == (8, 9)


def test_every_command_says_what_the_guide_shows(folder: Path, owner: Any) -> None:
    for command, shown in COMMANDS:
        words = shlex.split(command)
        assert words[:2] == ["python", "manage.py"]
        if words[2] == "rag_ingest":
            assert words[3:] == ["refunds/documents", "--store", "shop_terms", "--create"]
            continue
        said = io.StringIO()
        try:
            call_command(*words[2:], stdout=said, stderr=io.StringIO(), no_color=True)
        except CommandError as error:
            said.write(f"CommandError: {error}\n")
        assert said.getvalue() == shown, command


def test_every_request_of_the_guide_is_answered(folder: Path, owner: Any, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "CHAT_MODEL": f"scripted:{folder / 'answers.yaml'}"}
    import_flow(path=folder / "refunds", scope=scope_of(owner))
    _, key = create_key(user=owner, name="k", rights=["read", "write"])
    client, archive, told, answers = KeyClient(key), b"", {}, []
    for words in REQUESTS:
        path, headers, body = request_of(words, key, told.get("key", ""))
        body = archive if body == "@refunds.zip" else body
        method = "get" if body is None else "post"
        if "-N" in words:
            del headers["Authorization"]
            events = sse_events(async_to_sync(streamed)(key, method, path, body, **headers))
            assert events[-1][1] == "done"
            told = {"key": events[0][2].get("run", told.get("key"))}
            continue
        kind = headers.get("Content-Type", "application/json")
        response = client.get(path) if body is None else client.post(path, body, content_type=kind)
        assert response.status_code in (200, 201), (words, response.content)
        if response["Content-Type"] == "application/zip":
            archive = response.content
        else:
            answers.append(response.json())
            told = answers[-1] if "key" in answers[-1] else told
    statuses = [(one["status"], one["answer"]) for one in answers if "status" in one]
    assert statuses == [
        ("paused", ""),
        ("done", "You will get your money back."),
        ("done", "We cannot refund opened food.[1]"),
        ("done", "We cannot refund opened food.[1]"),
    ]
    assert answers[0]["reviews"][0]["message"] == "Pay 240 for order 18?"
    assert (answers[-2]["version"], answers[-1]["diff"]) == (1, "")
    assert models.FlowRun.objects.count() == 3


def request_of(words: list[str], key: str, run: str) -> tuple[str, dict[str, str], Any]:
    """Return path, headers and body of a curl command."""
    headers: dict[str, str] = {}
    path, body = "", None
    rest = iter(words[1:])
    assert words[0] == "curl"
    for word in rest:
        if word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name] = value.replace("$KEY", key)
        elif word == "--json":
            body = json.loads(next(rest))
        elif word == "--data-binary":
            body = next(rest)
        elif word == "-o":
            next(rest)
        elif word != "-N":
            path = word.removeprefix("$KB").replace("$RUN", run)
    assert headers["Authorization"] == f"Bearer {key}" and path.startswith("/api/flows")
    return path, headers, body


@pytest.fixture
def voucher() -> Iterator[None]:
    known = dict(NODE_TYPES)
    exec(compile(FILES["shop_nodes.py"], "shop_nodes.py", "exec"), {"__name__": "shop_nodes"})
    yield
    NODE_TYPES.clear()
    NODE_TYPES.update(known)


def test_the_node_type_of_the_guide_runs_in_a_flow(voucher: None) -> None:
    text = (
        "name: v\nentry_node: v\nnodes: [{name: v, type: voucher, config: {percent: 25}}]\n"
        "edges: [{from: v, to: END, condition: voucher == 10.0}]\n"
    )
    graph = compiled_graph_of_files(files=FlowFiles(text))
    case = FlowCase(name="x", message="hello")
    log = DryRunLog(graph.flow, case, model_of_script(script={"default": "x"}, name="x"))
    given = {"edges_var": {"amount": 40}}
    end = asyncio.run(graph.run(initial_state(graph.flow.definition, "hello", given), log))
    assert end.state["edges_var"]["voucher"] == 10.0
