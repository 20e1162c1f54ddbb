"""The guide “Write a plugin”: its files are written, its commands run, its output compared."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.forked_processes import run_python

BASE_DIR = Path(__file__).resolve().parents[3]
GUIDE = (BASE_DIR / "docs/guides/write-a-plugin.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", GUIDE, re.M | re.S)
FILES = {text.split("\n")[0].removeprefix("# "): text for kind, text in BLOCKS if kind == "python"}
COMMANDS = [text for kind, text in BLOCKS if kind == "console"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with our site and the guide's files beside manage.py."""
    folder = tmp_path_factory.mktemp("guide")
    for name in ("manage.py", "project", "rag", "agents", "pyproject.toml", "locale", "templates"):
        (folder / name).symlink_to(BASE_DIR / name)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def run(site: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a line of the guide as a shell would: names and values, then ``python`` and its words."""
    words = shlex.split(command)
    at = words.index("python")
    given = dict(word.split("=", 1) for word in words[:at])
    environment = {**os.environ, "PYTHONPATH": str(site), "NO_COLOR": "1", **given}
    if words[at + 1] == "manage.py":
        return run_python(*words[at + 1 :], env=environment, cwd=site)
    # The run that the guide shows is also counted, so that it is made once.
    if "test_shop_plugins" in command:
        environment["PYTEST_ADDOPTS"] = f"--junitxml={site / 'ran.xml'}"
    return subprocess.run(
        [sys.executable, *words[at + 1 :]],
        cwd=site,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_each_block_is_a_file_a_command_or_a_table() -> None:
    assert {kind for kind, _ in BLOCKS} == {"python", "console", "toml"}
    assert all(name.endswith(".py") for name in FILES)
    assert len(FILES) == 9
    assert len(COMMANDS) == 6


@pytest.mark.parametrize("block", COMMANDS, ids=lambda block: block.split("\n")[0])
def test_a_command_says_what_the_guide_shows(site: Path, block: str) -> None:
    first, *shown = block.splitlines()
    done = run(site, first.removeprefix("$ "))
    assert done.returncode == ("HINT: Mend RAG_PLUGIN_OPTIONS." in block), done.stdout + done.stderr
    said = f"{done.stdout}{done.stderr}".splitlines()
    pattern = "".join(
        r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n"
        for line in shown
    )
    assert re.fullmatch(pattern + r"(?:.*\n)*", "\n".join([*said, ""])), "\n".join(said)


def test_the_contract_ran_more_than_a_few_tests(site: Path) -> None:
    if not (site / "ran.xml").exists():
        run(site, "python -m pytest test_shop_plugins.py")
    cases = list(ElementTree.parse(site / "ran.xml").iter("testcase"))
    ended = {case.get("name"): [part.tag for part in case] for case in cases}
    others = [how for parts in ended.values() for how in parts]
    assert len(cases) >= 16 and others == ["skipped"] * 3
    assert ended["test_what_fails_behind_it_is_an_error_for_people"] == []


@pytest.mark.parametrize("module", ["use_enhancer", "shop_tool"])
def test_a_file_runs_and_its_claims_hold(site: Path, module: str) -> None:
    assert "assert " in FILES[f"{module}.py"]
    code = (
        "import os, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'project.settings';"
        f" django.setup(); import {module}"
    )
    done = run_python("-c", code, env={**os.environ, "PYTHONPATH": str(site)}, cwd=site)
    assert done.returncode == 0, done.stderr


def test_the_entry_point_is_the_packages_own() -> None:
    (shown,) = (text for kind, text in BLOCKS if kind == "toml")
    real = (BASE_DIR / "examples/plugin_package/pyproject.toml").read_text(encoding="utf-8")
    points = tomllib.loads(real)["project"]["entry-points"]
    assert tomllib.loads(shown)["project"]["entry-points"] == points
