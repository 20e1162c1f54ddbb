"""The worked example package: installed by pip into a folder of its own, found, used, proven."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.forked_processes import run_python

BASE_DIR = Path(__file__).resolve().parents[3]
EXAMPLE = BASE_DIR / "examples/plugin_package"
PROJECT = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def wheel(folder: Path) -> Path:
    """Build what setuptools would build, which is not there on every machine: a wheel is a zip."""
    name, version = PROJECT["name"].replace("-", "_"), PROJECT["version"]
    info, path = f"{name}-{version}.dist-info", folder / f"{name}-{version}-py3-none-any.whl"
    files = {
        file.relative_to(EXAMPLE).as_posix(): file.read_bytes()
        for file in sorted((EXAMPLE / name).iterdir())
        if file.suffix in (".py", ".json")
    }
    points = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in of.items())
        for group, of in PROJECT["entry-points"].items()
    ]
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {PROJECT['name']}\nVersion: {version}\n".encode()
    )
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/entry_points.txt"] = "\n".join(points).encode()
    record = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in {**files, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(file, content)
    return path


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip installed the package, without the internet."""
    target = tmp_path_factory.mktemp("site")
    built = wheel(tmp_path_factory.mktemp("wheel"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
    done = subprocess.run(
        [*pip, "--no-index", "--no-deps", "--target", str(target), str(built)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return target


def run(installed: Path | None, *command: str) -> subprocess.CompletedProcess[str]:
    return run_python(*command, env={**os.environ, "PYTHONPATH": str(installed or "")})


def listed(installed: Path | None) -> dict[str, Any]:
    done = run(installed, "manage.py", "rag_plugins", "--json")
    assert done.returncode == 0, done.stderr
    return {plugin["name"]: plugin for plugin in json.loads(done.stdout)["plugins"]}


def test_it_is_there_once_it_is_installed(installed: Path) -> None:
    before, after = listed(None), listed(installed)
    kinds = {name: after[name]["kind"] for name in set(after) - set(before)}
    assert kinds == {
        "glossary": "source",
        "web_search": "source",
        "plain_words": "enhancer",
        "word_overlap": "reranker",
        "letters": "embedding",
        "first_source": "chat",
        "subtitles": "parser",
        "paragraphs": "splitter",
        "explain_term": "tool",
        "entries": "connector",
    }
    assert after["glossary"]["module"] == "citable_glossary.source"
    assert after["glossary"]["schema"]["properties"]["top_k"]["maximum"] == 50


def test_it_can_be_used_by_name(installed: Path) -> None:
    code = """
import django, os
os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
django.setup()
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.sources import SourceQuery
from rag.services.plugins import make_plugin
from rag.services.answers.context_builder import PromptEnhancer
source = make_plugin(kind="source", name="glossary", options={"terms": {"pH": "Acidity."}})
query = SourceQuery("育苗时的 EC 和 ph 是多少？", Scope.anonymous(), Deadline(5), ports=None)
for hit in source.retrieve(query).hits:
    print(hit.rank, hit.external_id, hit.source)
print(PromptEnhancer.enhance_prompt("EC?", "sources", "plain_words"))
"""
    done = run(installed, "-c", code)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["1 EC glossary", "2 育苗 glossary", "3 pH glossary"]
    assert lines[3:] == [
        "sources",
        "",
        "EC?",
        "",
        "Answer from the above in at most 3 plain sentences.",
        "",
    ]


def test_it_proves_itself(installed: Path) -> None:
    done = run(installed, "-m", "pytest", "-vv", str(EXAMPLE / "tests"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" PASSED") >= 20
    assert "FAILED" not in done.stdout


def test_a_broken_package_is_reported_and_harms_nothing(installed: Path, tmp_path: Path) -> None:
    broken = tmp_path / "site"
    shutil.copytree(installed, broken)
    (broken / "citable_glossary" / "glossary.json").unlink()
    (broken / "citable_glossary" / "enhancer.py").write_text("import no_such_module\n")
    check = run(broken, "manage.py", "check")
    assert check.returncode == 0, check.stderr
    assert "rag.W001" in check.stderr
    assert "ModuleNotFoundError: No module named 'no_such_module'" in check.stderr
    assert "the package citable-glossary, uninstall it" in check.stderr
    done = run(broken, "manage.py", "rag_plugins")
    assert done.returncode == 1
    assert "failed: citable_glossary (citable-glossary)" in done.stdout
    assert "standard" in done.stdout


@pytest.mark.skipif(find_spec("setuptools") is None, reason="setuptools is not installed")
def test_setuptools_reads_its_project_file(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(EXAMPLE, copy)
    done = subprocess.run(
        [sys.executable, "-c", "import setuptools; setuptools.setup()", "-q", "egg_info"],
        cwd=copy,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    points = (copy / "citable_glossary.egg-info/entry_points.txt").read_text(encoding="utf-8")
    assert points.split("\n") == ["[citable.plugins]", "glossary = citable_glossary", ""]
    sources = (copy / "citable_glossary.egg-info/SOURCES.txt").read_text(encoding="utf-8")
    assert "citable_glossary/glossary.json" in sources.split()
