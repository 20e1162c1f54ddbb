"""Settings that cannot be read: one sentence that names the variable, whatever is wrong with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from project.environment import Environment
from rag.core.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[3]
WRONG = {
    "DATABASE_POOL_SIZE": ["abc", "0", "-1", "2.5", ""],
    "WORKER_CONCURRENCY": ["0"],
    "RAG_TIMEOUT_S": ["-1", "nan", "inf", "0", "soon"],
    "DEBUG": ["ture"],
    "RAG_PRICES": ["{x", "[1]", "null"],
    "RAG_SECRETS": ["[]"],
    "RAG_SOURCE_DATABASES": ["[1]", '{"a": "zz"}', '{"a": 1}', '{"a": "postgres://u:p@h:x/n"}'],
    "DATABASE_URL": [
        "foo",
        "postgress://u:p@h/n",
        "postgres://u:p@h:x/n",
        "sqlite:////tmp/x",
        "postgres://h",
    ],
    "POSTGRES_OPTIONS": ["abc"],
    "LOG_LEVEL": ["nope"],
    "LOG_FORMAT": ["nope"],
    "LANGUAGE_CODE": ["xx"],
    "TIME_ZONE": ["Mars", "../etc/passwd", ""],
    "AGENT_ENGINE": ["foo"],
    "RAG_SEARCH_PROVIDER": ["foo"],
    "RAG_E5_PRECISION": ["int4"],
}
READ = """
import os, sys, runpy
for line in sys.stdin.read().splitlines():
    name, _, value = line.partition("=")
    os.environ[name] = value
    try:
        runpy.run_path("project/settings.py")
    except Exception as error:
        print(f"{name}={value}", type(error).__name__, error, sep="\\t")
    else:
        print(f"{name}={value}", "nothing", "", sep="\\t")
    del os.environ[name]
"""


def test_every_wrong_setting_is_named(tmp_path: Path) -> None:
    lines = [f"{name}={value}" for name, values in WRONG.items() for value in values]
    environment = {"PATH": os.defpath, "CITABLE_VAR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", READ],
        cwd=ROOT,
        env=environment,
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    told = dict(line.split("\t", 1) for line in done.stdout.splitlines())
    assert list(told) == lines
    for line in lines:
        name = line.partition("=")[0]
        assert told[line].startswith(f"ConfigurationError\tThe setting {name} cannot be read: "), (
            line
        )
        assert "u:p@" not in told[line]
    assert not done.stderr


def test_a_command_ends_with_the_sentence(tmp_path: Path) -> None:
    environment = {"PATH": os.defpath, "CITABLE_VAR": str(tmp_path), "RAG_PRICES": "{x"}
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: The setting RAG_PRICES cannot be read: ")
    assert done.stderr.count("\n") == 1


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_text_is_a_number_or_a_sentence(text: str) -> None:
    environment = Environment()
    environment.ENVIRON = {"N": text}
    try:
        assert environment.whole("N", default=1, least=0) >= 0
    except ConfigurationError as error:
        assert "The setting N cannot be read" in str(error)


@pytest.mark.parametrize(
    ("text", "said"), [("yes", True), ("ON", True), ("1", True), ("No", False), ("", False)]
)
def test_words_for_yes_and_no(text: str, said: bool) -> None:
    environment = Environment()
    environment.ENVIRON = {"F": text}
    assert environment.flag("F", default=not said) is said
    environment.ENVIRON = {}
    assert environment.flag("F", default=said) is said


@pytest.mark.parametrize("text", ["", "  ", "{}"])
def test_a_table_that_is_set_to_nothing_is_empty(text: str) -> None:
    environment = Environment()
    environment.ENVIRON = {"RAG_SOURCE_DATABASES": text}
    assert environment.table("RAG_SOURCE_DATABASES") == {}
