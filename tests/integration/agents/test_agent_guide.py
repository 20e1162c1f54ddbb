"""The guide “Write an agent with RAGMixin”: its files run, its rows are saved, its claims hold."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agents.chat.agents import agent as engines
from agents.chat.agents.save import save_agent
from agents.core.extend_pipeline import remove_extension
from agents.models import Agent
from rag.core.access import Scope
from rag.core.plugins import PLUGINS
from rag.core.ports import ChatRequest
from tests.integration.agent_world import AgentWorld, world
from tests.integration.calling_model import Calling, call, calls

__all__ = ["world"]
BASE_DIR = Path(__file__).resolve().parents[3]
GUIDE = (BASE_DIR / "docs/guides/write-an-agent.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", GUIDE, re.M | re.S)
FILES = {text.split("\n")[0].removeprefix("# "): text for kind, text in BLOCKS if kind == "python"}
ROWS = [json.loads(text) for kind, text in BLOCKS if kind == "json"]


def load(name: str) -> Any:
    """Run a file of the guide as the module of its name."""
    module = ModuleType(name)
    # What a module defines must be found by its name, as dataclasses look it up.
    sys.modules[name] = module
    exec(compile(FILES[f"{name}.py"], f"{name}.py", "exec"), module.__dict__)
    return module


@pytest.fixture
def guide(world: AgentWorld) -> Iterator[AgentWorld]:
    yield world
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)
    PLUGINS._of("tool").pop("stock", None)


def test_each_block_is_a_file_or_a_row() -> None:
    assert {kind for kind, _ in BLOCKS} == {"python", "json"}
    assert all(name.endswith(".py") for name in FILES) and len(FILES) == 5
    assert [row["agent_type"] for row in ROWS] == ["react", "supervisor"]


def test_three_lines_make_a_class_that_retrieves_and_cites(guide: AgentWorld) -> None:
    text = FILES["handbook.py"]
    assert len([line for line in text.splitlines() if line and not line.startswith("#")]) == 4
    load("handbook")
    load("use_handbook")
    assert FILES["use_handbook.py"].count("assert ") == 4


def test_steps_of_a_plugin_are_in_every_answer(guide: AgentWorld) -> None:
    module = load("desk_steps")
    engines.agent_engine.cache_clear()
    try:
        chat = guide.use("I do not know.")
        told = guide.ask("When is PM of the pump due?")
        assert told.row.query == "When is preventive maintenance of the pump due?"
        assert told.of("notice")[0]["step"] == "count_hits"
        assert "It is winter." in chat.requests[-1].messages[-1].content
        told = guide.ask("What is the salary?")
        assert (told.text, told.row.outcome) == ("Please ask the front desk.", "not_found")
        assert told.of("sources") == []
    finally:
        remove_extension("rag", module.with_my_steps)
        engines.agent_engine.cache_clear()


def test_rows_are_saved_and_asked_as_shown(guide: AgentWorld) -> None:
    load("desk_tools")
    Agent.objects.get_or_create(name="rag", defaults={"is_public": True})
    for values in ROWS:
        given = {name: value for name, value in values.items() if name != "stores"}
        save_agent(scope=Scope.operator(), values=given, stores=values.get("stores"))
    assert Agent.objects.get(name="reception").max_iterations == 3

    def turn(request: ChatRequest) -> Any:
        last = request.messages[-1]
        if last.role != "tool":
            return calls(call("stock", part="filter"))
        assert '"pieces": 12' in last.content
        return "There are 12 filters in stock."

    chat = guide.use(Calling(turn))
    load("use_workshop")
    shown = {
        name
        for row in re.findall(r"^\| (`\w+`.*?) \|", GUIDE, re.M)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert {*sys.modules["use_workshop"].kinds} <= shown
    offered = [spec.name for spec in chat.requests[0].tools]
    assert offered == ["vector_retrieve", "stock", "old_manuals"]
    assert "in the workshop and are brief" in chat.requests[0].messages[0].content
