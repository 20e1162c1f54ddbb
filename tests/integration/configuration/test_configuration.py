"""Configuration as files: written, applied twice, refused as a whole, by the rights of a user."""

from __future__ import annotations

import re
import shlex
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.core.management.base import CommandError

from agents import models as agent_models
from agents.flows.definition.archive import FlowFiles
from agents.flows.versions.versions import activate_version, save_flow_version
from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError
from rag.services.access import scope_of
from rag.services.configuration import apply_configuration, export_configuration
from rag.services.evaluation import TargetSpec, save_question
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish

GUIDE = Path(__file__).parents[3] / "docs/guides/configuration-in-git.md"
OPERATOR = Scope.operator()
FLOW = """name: greet
description: Says hello
entry_node: hello
nodes:
  - name: hello
    type: agent
    config: {prompt: prompts/hello.md}
edges:
  - {from: hello, to: END}
"""
pytestmark = pytest.mark.django_db


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def apply(folder: Path, **options: Any) -> str:
    return apply_configuration(folder=folder, **{"scope": OPERATOR, **options}).diff


@pytest.fixture
def store() -> models.Store:
    store = StoreFactory(name="Docs", slug="docs", readers=[GroupFactory(name="Readers")])
    file = FileFactory(store=store, name="pump.md")
    (chunk,) = publish(file, "Close the valve first.")
    save_question(
        scope=OPERATOR,
        store=store,
        query="What first?",
        wanted=[TargetSpec(chunk_id=chunk.pk, grade=2)],
        facts={"note": "by hand"},
    )
    return store


def test_what_is_written_is_applied_without_a_difference(
    store: models.Store, tmp_path: Path
) -> None:
    agent = agent_models.Agent.objects.create(name="helper", prompt="Be brief.\nCite.\n")
    agent.stores.add(store)
    export_configuration(folder=tmp_path, scope=OPERATOR)
    assert yaml.safe_load((tmp_path / "agents/helper.yaml").read_text())["stores"] == ["docs"]
    (question,) = yaml.safe_load((tmp_path / "golden/docs.yaml").read_text())["questions"]
    assert question["expects"] == [
        {"file": "pump.md", "passage": "Close the valve first.", "grade": 2}
    ]
    assert apply(tmp_path) == "" and apply(tmp_path, prunes=True) == ""
    agent.delete()
    models.GoldenQuestion.objects.all().delete()
    models.Store.objects.update(max_tokens_per_chunk=400)
    diff = apply(tmp_path)
    assert "-max_tokens_per_chunk: 400" in diff and "+  - file: pump.md" in diff
    agent = agent_models.Agent.objects.get(name="helper")
    assert (agent.prompt, list(agent.stores.all())) == ("Be brief.\nCite.\n", [store])
    (target,) = models.GoldenTarget.objects.all()
    assert (target.chunk.text if target.chunk else "", target.grade) == (
        "Close the valve first.",
        2,
    )
    assert apply(tmp_path) == ""


def test_a_few_keys_change_those_alone_and_a_dry_run_nothing(
    store: models.Store, tmp_path: Path
) -> None:
    write(tmp_path, "stores/docs.yaml", "retrieval: {top_k: 3}\n")
    write(tmp_path, "stores/new.yaml", "name: New\nreader_groups: [Readers]\n")
    said = apply(tmp_path, is_dry=True)
    assert "+  top_k: 3" in said and "+++ stores/new.yaml" in said
    store.refresh_from_db()
    assert store.retrieval == {} and models.Store.objects.count() == 1
    assert apply(tmp_path) == said
    store.refresh_from_db()
    assert (store.retrieval, store.name) == ({"top_k": 3}, "Docs")
    assert models.Store.objects.get(slug="new").reader_groups.get().name == "Readers"
    assert apply(tmp_path) == ""


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("stores/a.yaml", "name: A\nchunk_size: 3\n", "“stores/a.yaml”, line 2, column 1: chunk_size: there is no such key; known: "),
        ("golden/docs.yaml", "questions:\n  - question: x\n    grade: 1\n", "line 3, column 5: questions.0.grade: there is no such key"),
        ("stores/a.yaml", "is_public: maybe\n", "line 1, column 1: is_public: Input should be a valid boolean"),
        ("stores/a.yaml", "max_tokens_per_chunk: 9\n", "“stores/a.yaml”, line 1, column 1: "),
        ("stores/a.yaml", "owner: nobody\n", "There is no user “nobody”"),
        ("stores/a.yaml", "reader_groups: [Ghosts]\n", "Ghosts"),
        ("stores/docs.yaml", "embedding_model: e5:another\n", "rag_move"),
        ("golden/docs.yaml", "questions: [{question: x, expects: [{file: gone.md}]}]\n", "The store has no file “gone.md”"),
        ("golden/gone.yaml", "questions: []\n", "There is no store “gone”"),
        ("agents/a.yaml", "stores: [gone]\n", "gone"),
        ("flows/other.yaml", f"yaml: |\n  {FLOW.replace(chr(10), chr(10) + '  ')}\n", "names the flow “greet”"),
        ("flows/x.yaml", "[]\n", "it holds no keys"),
        ("stores/a.yaml", "name: [\n", "“stores/a.yaml”, line "),
        ("widgets/a.yaml", "x: 1\n", "“widgets” is no part of a configuration"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_by_its_place_and_nothing_is_kept(
    store: models.Store, tmp_path: Path, name: str, text: str, told: str
) -> None:
    write(tmp_path, "stores/0-before.yaml", "name: Before\n")
    write(tmp_path, name, text)
    with pytest.raises(InvalidInputError) as error:
        apply(tmp_path)
    assert told in str(error.value)
    assert models.Store.objects.count() == 1


def test_what_has_no_file_goes_only_when_it_is_said(store: models.Store, tmp_path: Path) -> None:
    agent_models.Agent.objects.get_or_create(name="shipped", defaults={"is_builtin": True})
    version = save_flow_version(
        files=FlowFiles(FLOW, {"prompts/hello.md": "Say hello.\n"}), scope=OPERATOR
    )
    activate_version(version=version, scope=OPERATOR)
    export_configuration(folder=tmp_path, scope=OPERATOR)
    flow = tmp_path / "flows/greet.yaml"
    flow.write_text(flow.read_text().replace("Say hello.", "Say hello twice."))
    assert "Say hello twice." in apply(tmp_path)
    assert agent_models.FlowVersion.objects.get(is_active=True).number == 2
    (tmp_path / "stores/docs.yaml").unlink()
    (tmp_path / "golden/docs.yaml").unlink()
    (tmp_path / "flows/greet.yaml").unlink()
    assert apply(tmp_path) == ""
    built_in = agent_models.Agent.objects.filter(is_builtin=True).count()
    for path in (tmp_path / "agents").glob("*.yaml"):
        path.unlink()
    assert "--- flows/greet.yaml\n+++ /dev/null" in apply(tmp_path, prunes=True)
    assert not models.Store.objects.exists() and not agent_models.Flow.objects.exists()
    assert agent_models.Agent.objects.filter(is_builtin=True).count() == built_in > 0


def test_a_user_writes_and_changes_what_is_ones_own(store: models.Store, tmp_path: Path) -> None:
    anna = UserFactory(permissions=["add_store"])
    scope = scope_of(anna)
    export_configuration(folder=tmp_path, scope=scope)
    assert list(tmp_path.glob("*/*.yaml")) == []
    write(tmp_path, "stores/docs.yaml", "is_public: true\n")
    with pytest.raises(InvalidInputError, match="docs"):
        apply(tmp_path, scope=scope)
    (tmp_path / "stores/docs.yaml").unlink()
    write(tmp_path, "stores/own.yaml", "name: Own\n")
    apply(tmp_path, scope=scope, may=anna.has_perm)
    assert models.Store.objects.get(slug="own").owner == anna
    write(tmp_path, "stores/own.yaml", "name: Renamed\n")
    with pytest.raises(InvalidInputError, match="change_store"):
        apply(tmp_path, scope=scope, may=anna.has_perm)
    write(tmp_path, "stores/own.yaml", f"owner: {UserFactory().username}\n")
    with pytest.raises(InvalidInputError, match="Only operators"):
        apply(tmp_path, scope=scope)


def test_the_value_of_a_secret_is_never_written(settings: Any, tmp_path: Path) -> None:
    settings.RAG = {**settings.RAG, "SECRETS": {"crm": "hunter2-hunter2"}}
    agent_models.Agent.objects.create(name="leaky", prompt="Sign in with hunter2-hunter2.")
    with pytest.raises(InvalidInputError, match="the value of a secret"):
        export_configuration(folder=tmp_path, scope=OPERATOR)
    assert list(tmp_path.iterdir()) == []


def test_conversations_are_written_with_their_feedback_and_read_by_nobody(tmp_path: Path) -> None:
    session = agent_models.Session.objects.create(user=UserFactory(), title="Pumps")
    session.messages.create(
        role="assistant", content="Close it.", feedback=-1, feedback_comment="No"
    )
    export_configuration(folder=tmp_path, scope=OPERATOR, has_records=True)
    (path,) = (tmp_path / "conversations").iterdir()
    (message,) = yaml.safe_load(path.read_text())["messages"]
    assert (message["content"], message["feedback"], message["comment"]) == (
        "Close it.",
        "bad",
        "No",
    )
    assert apply(tmp_path, prunes=True) == ""


def test_the_guide_runs_as_it_stands(
    store: models.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", text, re.S)
    printed = []
    for block in re.findall(r"```sh\n(.*?)```", text, re.S):
        for line in block.splitlines():
            _, _, *words = shlex.split(line, comments=True)
            out = StringIO()
            call_command(*words, stdout=out)
            printed.append(out.getvalue())
        write(tmp_path, "config/stores/handbooks.yaml", example)
    assert "+max_tokens_per_chunk: 300" in printed[1] and "1 would be changed." in printed[1]
    assert printed[2].endswith("1 changed.\n") and printed[3] == "0 would be changed.\n"
    with pytest.raises(CommandError, match="There is no folder"):
        call_command("rag_apply", "nowhere")
