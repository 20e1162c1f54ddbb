"""rag_plugins as one types it, and the services behind it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from django.core.management import CommandError, call_command
from django.utils import translation
from django.utils.translation import gettext_lazy

from rag.core.errors import InvalidInputError, UnknownNameError
from rag.core.options import option
from rag.core.plugins import METHODS, PLUGINS, register
from rag.plugins import load
from rag.plugins.enhancers.standard import Standard
from rag.plugins.load import PluginFailure
from rag.services.plugins import list_plugins, make_plugin


@pytest.fixture(autouse=True)
def diary(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Any]]:
    """A foreign source and a tool beside what is there."""
    monkeypatch.setattr(PLUGINS, "_found", {kind: dict(of) for kind, of in PLUGINS._found.items()})

    @register("source")
    class Diary:
        """What was written.

        On a day.
        """

        name, label = "diary", gettext_lazy("Files")

        @dataclass(frozen=True)
        class Options:
            path: str = option(help="Where it lies.")
            order: Literal["new", "old"] = option("new", help="What comes first.")
            top_k: int | None = option(None, help="At most.", minimum=1, maximum=9)
            key: str = option("", help="To open it.", is_secret=True)
            days: list[str] = option(["一"], help="Which.")

        def __init__(self, options: Options) -> None:
            self.options = options

        def retrieve(self, query: Any) -> None: ...

    @register("tool")
    class Shout:
        name, label, description = "shout", "Shout", "Shouts a text."

        @dataclass
        class Options:
            text: str = option(help="What.")

        def run(self, call: Any) -> dict[str, Any]:
            return {"text": call.arguments.text.upper()}

    yield Diary


@pytest.fixture
def failed(monkeypatch: pytest.MonkeyPatch, settings: Any) -> PluginFailure:
    failure = PluginFailure("pd_bad", "settings", "ImportError: no pd_x", "pd_bad.py:1", False)
    settings.RAG = {**settings.RAG, "PLUGINS": (*settings.RAG["PLUGINS"], "pd_bad")}
    monkeypatch.setitem(load._outcomes, "pd_bad", failure)
    return failure


def run(*arguments: str) -> str:
    said = io.StringIO()
    call_command("rag_plugins", *arguments, stdout=said, no_color=True)
    return said.getvalue()


def test_it_lists_kinds_names_labels_and_options() -> None:
    lines = run().splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        kind for kind in METHODS if list(PLUGINS.names(kind))
    ]
    assert "  standard  Standard: keep to the sources  [rag.plugins.enhancers.standard]" in lines
    first = lines.index(f"  diary  Files  [{__name__}]")
    assert lines[first + 1 : first + 11] == [
        "    path: string, required",
        "        Where it lies.",
        '    order: string, new | old, default "new"',
        "        What comes first.",
        "    top_k: integer or null, 1 to 9, default null",
        "        At most.",
        '    key: string, default "", the name of a secret',
        "        To open it.",
        '    days: list of string, default ["一"]',
        "        Which.",
    ]


def test_one_kind_alone() -> None:
    said = run("--kind", "tool")
    assert said.splitlines()[0] == "tool"
    assert "standard" not in said
    with pytest.raises(
        CommandError,
        match="Unknown plugin kind “sauce”. Known: chat, connector, embedding, enhancer, ",
    ):
        run("--kind", "sauce")


def test_labels_are_translated() -> None:
    with translation.override("zh-hans"):
        assert "  diary  文件  [" in run("--kind", "source")


def test_json_holds_the_schemas() -> None:
    found = json.loads(run("--json", "--kind", "source"))
    (diary,) = (plugin for plugin in found["plugins"] if plugin["name"] == "diary")
    assert diary["kind"] == "source"
    assert diary["label"] == "Files"
    assert diary["description"] == "What was written."
    assert diary["module"] == __name__
    assert diary["schema"]["required"] == ["path"]
    assert diary["schema"]["properties"]["key"]["x-secret"] is True
    assert found["failures"] == []


def test_a_failed_module_is_shown_at_the_end_and_fails_the_command(failed: PluginFailure) -> None:
    said = io.StringIO()
    with pytest.raises(CommandError, match="1 plugin modules failed") as caught:
        call_command("rag_plugins", stdout=said, no_color=True)
    assert caught.value.returncode == 1
    assert said.getvalue().splitlines()[-3:] == [
        "failed: pd_bad (settings)",
        "    ImportError: no pd_x",
        "    pd_bad.py:1",
    ]


def test_json_is_whole_when_a_module_failed(failed: PluginFailure) -> None:
    said = io.StringIO()
    with pytest.raises(CommandError):
        call_command("rag_plugins", "--json", stdout=said)
    (shown,) = json.loads(said.getvalue())["failures"]
    assert shown == {
        "module": "pd_bad",
        "door": "settings",
        "reason": "ImportError: no pd_x",
        "where": "pd_bad.py:1",
        "is_ours": False,
    }


def test_the_service_lists_what_the_registry_has() -> None:
    found = list_plugins(kind="enhancer")
    assert [plugin.name for plugin in found.plugins] == list(PLUGINS.names("enhancer"))
    assert {plugin.kind for plugin in list_plugins().plugins} >= {
        "source",
        "enhancer",
        "tool",
        "chat",
    }
    assert found.failures == ()


def test_an_instance_is_made_from_checked_options(diary: type[Any]) -> None:
    made = make_plugin(kind="source", name="diary", options={"path": "/x", "top_k": 3})
    assert isinstance(made, diary)
    assert made.options == diary.Options(path="/x", top_k=3)
    assert isinstance(make_plugin(kind="enhancer", name="standard"), Standard)
    again = make_plugin(kind="source", name="diary", options={"path": "/x", "top_k": 3})
    assert again is not made


def test_what_cannot_be_made_is_named() -> None:
    with pytest.raises(InvalidInputError, match="diary needs the option “path”"):
        make_plugin(kind="source", name="diary")
    with pytest.raises(InvalidInputError, match="“top_k” of diary is 99. Allowed: 1 to 9"):
        make_plugin(kind="source", name="diary", options={"path": "/x", "top_k": 99})
    with pytest.raises(UnknownNameError, match="Unknown source “dairy”. Known: .*diary"):
        make_plugin(kind="source", name="dairy")


def test_a_tool_is_made_without_options() -> None:
    assert make_plugin(kind="tool", name="shout").run
    with pytest.raises(InvalidInputError, match="The tool shout has no options, only arguments"):
        make_plugin(kind="tool", name="shout", options={"text": "x"})
