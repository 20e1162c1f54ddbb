"""The three doors of plugins: what comes in, what is reported, and that the site lives on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import AppConfig, apps
from django.core.checks import Error, Warning

from rag.core.errors import UnknownNameError
from rag.core.plugins import PLUGINS
from rag.plugins import load
from rag.plugins.checks import check_plugins
from rag.plugins.load import PluginFailure, load_plugins

GOOD = """
from dataclasses import dataclass
from rag.core.plugins import register

@register("source")
class Diary:
    name, label = "{name}", "Diary"

    @dataclass
    class Options: ...

    def __init__(self, options): ...
    def retrieve(self, query): ...
"""
Write = Callable[..., None]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test the registry and the outcomes of the start, and forget its modules."""
    monkeypatch.setattr(PLUGINS, "_found", {kind: dict(of) for kind, of in PLUGINS._found.items()})
    monkeypatch.setattr(load, "_outcomes", dict(load._outcomes))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("pd_"):
            del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write modules into a folder that Python looks into: ``write(pd_diary="…")``."""
    monkeypatch.syspath_prepend(tmp_path)

    def into(**modules: str) -> None:
        for name, text in modules.items():
            path = tmp_path / f"{name.replace('__', '/', 1)}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")

    return into


@pytest.fixture
def listed(settings: Any) -> Callable[..., list[PluginFailure]]:
    """Load with these modules in the settings after ours; return what failed of them."""

    def load_with(*modules: str) -> list[PluginFailure]:
        settings.RAG = {**settings.RAG, "PLUGINS": (*settings.RAG["PLUGINS"], *modules)}
        return [failure for failure in load_plugins() if failure.module in modules]

    return load_with


def entry_point(folder: Path, value: str, package: str = "pd-package") -> None:
    info = folder / f"{package.replace('-', '_')}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[citable.plugins]\nany = {value}\n")


def add_app(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    module = __import__(name)
    app = AppConfig(name, module)
    monkeypatch.setitem(apps.app_configs, app.label, app)


def test_nothing_of_ours_fails() -> None:
    assert load_plugins() == []
    assert check_plugins() == []


def test_a_module_of_the_settings_is_loaded(write: Write, listed: Any) -> None:
    write(pd_diary=GOOD.format(name="diary"))
    assert listed("pd_diary") == []
    assert PLUGINS.get("source", "diary").__module__ == "pd_diary"


def test_a_module_of_an_installed_app_is_loaded(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(pd_app____init__="", pd_app__rag_plugins=GOOD.format(name="app_diary"))
    add_app(monkeypatch, "pd_app")
    assert load_plugins() == []
    assert PLUGINS.get("source", "app_diary").__module__ == "pd_app.rag_plugins"


def test_an_app_without_plugins_or_of_a_single_file_is_fine(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(pd_app____init__="", pd_single="")
    add_app(monkeypatch, "pd_app")
    add_app(monkeypatch, "pd_single")
    assert load_plugins() == []


def test_a_failing_import_inside_an_apps_module_is_not_taken_for_absence(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(pd_app____init__="", pd_app__rag_plugins="\nimport pd_not_installed\n")
    add_app(monkeypatch, "pd_app")
    assert load_plugins() == [
        PluginFailure(
            "pd_app.rag_plugins",
            "app",
            "ModuleNotFoundError: No module named 'pd_not_installed'",
            f"{tmp_path}/pd_app/rag_plugins.py:2",
            False,
        )
    ]


@pytest.mark.parametrize("value", ["pd_diary", "pd_diary:Diary", "pd_diary [extra]"])
def test_a_module_of_an_installed_package_is_loaded(
    write: Write, tmp_path: Path, value: str
) -> None:
    write(pd_diary=GOOD.format(name="diary"))
    entry_point(tmp_path, value)
    assert load_plugins() == []
    assert PLUGINS.get("source", "diary").__module__ == "pd_diary"


def test_a_failing_package_is_named(write: Write, tmp_path: Path) -> None:
    write(pd_diary="1 / 0")
    entry_point(tmp_path, "pd_diary")
    (failure,) = load_plugins()
    assert (failure.door, failure.reason) == ("pd-package", "ZeroDivisionError: division by zero")


@pytest.mark.parametrize("value", ["!!", ":x", ".diary", "pd no"])
def test_an_entry_point_without_sense_is_a_failure(
    write: Write, tmp_path: Path, value: str
) -> None:
    entry_point(tmp_path, value)
    (failure,) = load_plugins()
    assert failure.door == "pd-package"
    assert failure.reason


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("x = 1\nimport pd_nothing", "ModuleNotFoundError: No module named 'pd_nothing'", 2),
        ("\n\ndef f(:\n", "SyntaxError: invalid syntax (pd_bad.py, line 3)", 3),
        ("raise SystemExit(3)", "SystemExit: 3", 1),
        ("class Odd(Exception): ...\nraise Odd('a\\nb')", "Odd: a b", 2),
        ("import json\njson.loads('{')", "JSONDecodeError: Expecting property name", None),
        ("assert False", "AssertionError: ", 1),
        (GOOD.format(name="Bad Name"), "The plugin pd_bad.Diary has the name “Bad Name”.", 5),
    ],
)
def test_whatever_a_module_raises_is_reported_with_its_place(
    write: Write, listed: Any, tmp_path: Path, text: str, reason: str, line: int | None
) -> None:
    write(pd_bad=text, pd_diary=GOOD.format(name="diary"))
    (failure,) = listed("pd_bad", "pd_diary")
    assert failure.module == "pd_bad"
    assert failure.reason.startswith(reason.strip())
    assert failure.door == "settings"
    assert not failure.is_ours
    if line:
        assert failure.where == f"{tmp_path}/pd_bad.py:{line}"
    assert PLUGINS.get("source", "diary")


def test_a_module_that_does_not_exist_is_reported(listed: Any) -> None:
    (failure,) = listed("pd_missing.plugins")
    assert failure.reason == "ModuleNotFoundError: No module named 'pd_missing'"
    assert failure.where == "pd_missing.plugins"


def test_a_second_class_of_a_name_is_a_failure_that_names_both(write: Write, listed: Any) -> None:
    write(pd_one=GOOD.format(name="diary"), pd_two=GOOD.format(name="diary"))
    (failure,) = listed("pd_one", "pd_two")
    assert failure.module == "pd_two"
    assert "pd_one.Diary and pd_two.Diary" in failure.reason
    assert failure.where.endswith("pd_two.py:5")
    assert PLUGINS.get("source", "diary").__module__ == "pd_one"


def test_nobody_takes_the_name_of_one_of_ours(write: Write, listed: Any) -> None:
    ours = PLUGINS.get("enhancer", "standard")
    text = GOOD.format(name="standard").replace('"source"', '"enhancer"')
    write(pd_sly=text.replace("retrieve", "enhance"))
    (failure,) = listed("pd_sly")
    assert "rag.plugins.enhancers.standard.Standard and pd_sly.Diary" in failure.reason
    assert PLUGINS.get("enhancer", "standard") is ours


def test_loading_again_tries_nothing_twice(write: Write, listed: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    counting = f"open({str(log)!r}, 'a').write('x')\n"
    write(pd_good=counting, pd_bad=counting + "1 / 0")
    first = listed("pd_good", "pd_bad")
    assert len(first) == 1
    assert load_plugins() == load_plugins() == first
    assert log.read_text() == "xx"


def test_threads_load_once(write: Write, listed: Any, tmp_path: Path) -> None:
    write(pd_slow="import time; time.sleep(0.2); 1 / 0")
    found: list[list[PluginFailure]] = []
    threads = [threading.Thread(target=lambda: found.append(listed("pd_slow"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(failures) for failures in found] == [1, 1, 1, 1]
    assert len({id(failures[0]) for failures in found}) == 1


def test_a_module_at_two_doors_is_loaded_once(write: Write, listed: Any, tmp_path: Path) -> None:
    write(pd_bad="1 / 0")
    entry_point(tmp_path, "pd_bad")
    (failure,) = listed("pd_bad")
    assert failure.door == "settings"
    assert len(load_plugins()) == 1


def test_no_secret_is_told(write: Write, listed: Any, settings: Any) -> None:
    settings.RAG = {
        **settings.RAG,
        "SECRETS": {"A": "hunter2", "B": "hunter2-long", "C": ""},
        "OPENAI_API_KEY": "sk-abc",
    }
    write(pd_bad="raise ValueError('hunter2-long hunter2 sk-abc postgres://me:pass@host/db')")
    (failure,) = listed("pd_bad")
    assert failure.reason == "ValueError: … … … postgres://…@host/db"


def test_a_long_reason_is_cut(write: Write, listed: Any) -> None:
    write(pd_bad="raise ValueError('x' * 9999)")
    (failure,) = listed("pd_bad")
    assert len(failure.reason) == 500


def test_a_foreign_failure_is_a_warning_that_says_what_to_do(
    write: Write, listed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(pd_bad="1 / 0", pd_packed="1 / 0", pd_app____init__="", pd_app__rag_plugins="1 / 0")
    entry_point(tmp_path, "pd_packed")
    add_app(monkeypatch, "pd_app")
    listed("pd_bad")
    messages = check_plugins()
    assert [(message.id, message.obj) for message in messages] == [
        ("rag.W001", "pd_bad"),
        ("rag.W001", "pd_app.rag_plugins"),
        ("rag.W001", "pd_packed"),
    ]
    assert all(isinstance(message, Warning) for message in messages)
    assert messages[0].msg == (
        "The plugins of pd_bad are not there: ZeroDivisionError: division by zero"
        f" (at {tmp_path}/pd_bad.py:1)"
    )
    hints = [message.hint or "" for message in messages]
    assert "take pd_bad out of RAG_PLUGINS" in hints[0]
    assert "out of INSTALLED_APPS" in hints[1]
    assert "the package pd-package, uninstall it" in hints[2]


def test_a_failure_of_ours_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    failure = PluginFailure("rag.plugins.sources", "settings", "ImportError: x", "y.py:1", True)
    monkeypatch.setitem(load._outcomes, "rag.plugins.sources", failure)
    (message,) = check_plugins()
    assert isinstance(message, Error)
    assert message.id == "rag.E001"


def test_a_failed_plugin_is_not_known(write: Write, listed: Any) -> None:
    write(pd_bad="1 / 0\n" + GOOD.format(name="never"))
    listed("pd_bad")
    with pytest.raises(UnknownNameError, match="Unknown source “never”"):
        PLUGINS.get("source", "never")
