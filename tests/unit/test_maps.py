"""The maps for newcomers say what is so: modules, files of each kind of change, the index."""

from __future__ import annotations

import re

import pytest

from benchmarks.house import ROOT, Tree, changes

MAPS = ("ARCHITECTURE.md", "CONTRIBUTING.md")
_MODULE = re.compile(r"\b(?:rag|agents|project)(?:\.[a-z_0-9]+)+\b(?!\.md)")
_NAMELESS = {"__init__.py"}
_PATH = re.compile(
    r"`((?:[\w.-]+/)*[\w.-]+(?:/|\.(?:py|md|toml|yaml))|(?:rag|agents|tests|docs)/[\w/]+)`"
)
TREE = Tree()


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def exists_as_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or path.is_dir()


@pytest.mark.parametrize("name", MAPS)
def test_what_a_map_names_is_there(name: str) -> None:
    text = text_of(name).partition("| to add a |")[0]
    modules = sorted(set(_MODULE.findall(text)))
    assert [one for one in modules if not exists_as_module(one)] == []
    paths = set(_PATH.findall(text)) - _NAMELESS
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def places() -> list[tuple[str, str, str]]:
    """Return the rows of “Where is ...”: what is looked for, where it is, where its tests are."""
    table = text_of("ARCHITECTURE.md").partition("## Where is")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.*?) \| (.*?) \|$", table, re.MULTILINE)
    return [row for row in rows[1:] if row[1].strip(" -")]


@pytest.mark.parametrize(("wanted", "place", "tests"), places())
def test_the_tests_of_a_place_know_it(wanted: str, place: str, tests: str) -> None:
    names = [one.replace("/", ".") for one in re.findall(r"`([\w./]+)`", place)]
    paths = [ROOT / one for one in re.findall(r"`(tests/[\w./]+)`", tests)]
    assert paths, f"where are the tests of {wanted}?"
    for path in paths:
        files = [path] if path.is_file() else sorted(path.glob("test_*.py"))
        told = "\n".join(file.read_text(encoding="utf-8") for file in files)
        # Edges are asked over HTTP or in a browser; what they run is not imported.
        is_outside = path.is_relative_to(ROOT / "tests/edges") or path.name == "browser"
        assert files and (is_outside or any(name in told for name in names)), (wanted, path)


def test_the_chat_pages_scripts_are_all_told() -> None:
    (row,) = (place for wanted, place, _ in places() if wanted == "the chat page")
    scripts = {path.stem for path in (ROOT / "agents/static/agents/chat").glob("*.js")}
    assert scripts <= set(re.findall(r"`(\w+)`", row))


def test_fifteen_kinds_of_change_have_a_row() -> None:
    assert len(list(changes())) >= 15


@pytest.mark.parametrize(("kind", "paths", "example"), list(changes()))
def test_these_files_are_all_that_a_change_touches(
    kind: str, paths: list[str], example: str
) -> None:
    assert [path for path in paths if not (ROOT / path).exists()] == []
    # Where the file does not bear its name, the example stands in it.
    silent = [
        path
        for path in paths
        if example not in path.rpartition("/")[2]
        and example.replace("_", "") not in text_of(path).lower().replace("_", "")
    ]
    assert silent == []
    new = next((path for path in paths if example in path and not path.startswith("tests/")), "")
    if new.startswith(("rag/", "agents/", "project/")):
        importers = {user.as_posix() for user in TREE.importers_of(new)}
        assert importers <= set(paths), f"to add a {kind} touches more: {importers - set(paths)}"


def test_tables_by_kind_of_file_are_in_the_row_too() -> None:
    # Nothing imports the new parser there: they name the kind.
    (paths,) = (paths for kind, paths, _ in changes() if kind == "file format of our own")
    named = {
        path.as_posix()
        for path, text in TREE.files.items()
        if re.search(r'"epub["/]', text) and path.name != "__init__.py"
    }
    assert named <= set(paths)


def test_every_decision_is_in_the_index_once() -> None:
    text = text_of("docs/decisions.md")
    index, _, _ = text.partition("\n## 20")
    titles = re.findall(r"^## \d{4}-\d\d-\d\d · (.+)$", text, re.MULTILINE)
    listed = re.findall(r"^- \[(.+)\]\(#[^)]+\)$", index, re.MULTILINE)
    assert sorted(listed) == sorted(titles)


def test_no_docstring_is_a_riddle() -> None:
    # “In: … Out: …” said what goes through a module before it said what the module is.
    riddles = [
        path.as_posix()
        for path, text in TREE.files.items()
        if re.search(r'\A"""(?:To be written|[^"]*\bIn: [^"]*\bOut: )', text)
    ]
    assert riddles == []
