"""Flows as folders, the cases beside them, and results as a prompt shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.flows.definition.archive import (
    MAX_BYTES,
    FlowFiles,
    check_prompt_paths,
    read_flow_folder,
    write_flow_folder,
)
from agents.flows.definition.source_results import dependent_values, fit_results, format_results
from agents.flows.versions.dry_run import read_cases
from rag.core.errors import InvalidInputError, NotFoundError

PROMPTS = {"prompts/10-问.md": "问题：{user_query}\r\n", "note.txt": ""}
FILES = FlowFiles("name: x\n", PROMPTS)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    written = write_flow_folder(tmp_path / "new" / "flow", FILES)
    assert sorted(file.name for file in written) == ["10-问.md", "flow.yaml", "note.txt"]
    assert read_flow_folder(tmp_path / "new" / "flow").prompts["note.txt"] == ""
    again = read_flow_folder(tmp_path / "new" / "flow" / "flow.yaml")
    assert again.yaml == "name: x\n"
    assert set(again.prompts) == set(PROMPTS)


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_bytes(b"\xef\xbb\xbfname: x")
    assert read_flow_folder(tmp_path).yaml == "name: x"


def test_what_lies_outside_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "secret.md"
    outside.write_text("secret")
    folder = tmp_path / "flow"
    write_flow_folder(folder, FILES)
    (folder / "link.md").symlink_to(outside)
    assert set(read_flow_folder(folder).prompts) == set(PROMPTS)


def test_what_is_no_flow_says_why(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="There is no flow at"):
        read_flow_folder(tmp_path)
    (tmp_path / "flow.yaml").write_bytes(b"\xff\xfe\x00x")
    with pytest.raises(InvalidInputError, match="is not UTF-8"):
        read_flow_folder(tmp_path)
    (tmp_path / "flow.yaml").write_text("x" * (MAX_BYTES + 1))
    with pytest.raises(InvalidInputError, match="At most 500000"):
        read_flow_folder(tmp_path)


@pytest.mark.parametrize(
    "path", ["../x.md", "/etc/x.md", "a/../../x.md", "a\\..\\x.md", "x.py", "", ".", "a\0.md"]
)
def test_a_prompt_s_path_cannot_lead_out(path: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot be the path of a prompt"):
        check_prompt_paths({path: ""})
    check_prompt_paths({"prompts/a.b/10-问答.md": ""})


CASES = """\
default: fallback
answers: [{contains: a, answer: b}]
cases:
  - {name: one, message: hello, sources: {kb: []}, expect: {route: [a], variables: {x: 1}}}
"""


def test_cases_are_read_with_their_script(tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_text("script: s.yaml\n" + CASES, encoding="utf-8")
    (tmp_path / "s.yaml").write_text("answers: [{contains: c, answer: d}]\ndefault: other")
    found = read_cases(tmp_path)
    assert [line["contains"] for line in found.answers] == ["a", "c"]
    assert (found.default, found.cases[0].expect.route, found.cases[0].expect.status) == (
        "fallback",
        ["a"],
        "done",
    )
    assert read_cases(tmp_path / "flow.yaml").cases[0].name == "one"


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        (
            "name: one",
            "nam: one",
            InvalidInputError,
            "line 4, column 5: cases.0.name: Field required",
        ),
        (
            "expect: {route: [a]",
            "expect: {status: odd",
            InvalidInputError,
            "line 4, column 61: cases.0.expect.status",
        ),
        ("default: fallback", "script: gone.yaml", NotFoundError, "There is no script at"),
        ("cases:\n", "case:\n", InvalidInputError, "cases: Field required|Extra inputs"),
    ],
)
def test_wrong_cases_are_refused_with_their_place(
    tmp_path: Path, old: str, new: str, error: type[Exception], message: str
) -> None:
    assert old in CASES
    (tmp_path / "cases.yaml").write_text(CASES.replace(old, new), encoding="utf-8")
    with pytest.raises(error, match=message):
        read_cases(tmp_path)


def test_no_cases_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="There are no cases at"):
        read_cases(tmp_path)


def test_results_are_numbered_through_all_sources() -> None:
    found = {
        "kb": [{"content": "one", "score": 0.5}, {"content": "two"}],
        "empty": [],
        "rows": [{"a": 1, "b": None, "c": ["中"]}],
        "service": {"status": "ok"},
        "texts": ["plain"],
    }
    assert format_results(found, 1000, len) == (
        '## kb\n\n[1] (0.50)\none\n\n[2] two\n\n## rows\n\n[3] a: 1\nc: ["中"]\n\n## service\n\n[4] status: ok\n\n'
        "## texts\n\n[5] plain"
    )
    assert format_results({}, 1000, len) == ""


def test_a_raw_result_shows_its_place_too() -> None:
    raw = {
        "content": "text",
        "score": None,
        "source": {"name": "a.pdf"},
        "page_first": 2,
        "heading_path": ["A", "B"],
        "metadata": {},
    }
    assert format_results({"kb": [raw]}, 1000, len) == "## kb\n\n[1] a.pdf, p. 2, A > B\ntext"


results = st.dictionaries(
    st.text(min_size=1, max_size=5),
    st.lists(st.dictionaries(st.just("content"), st.text(max_size=40), min_size=1), max_size=5),
    max_size=4,
)


@given(found=results, limit=st.integers(1, 400))
def test_what_is_kept_fits_and_keeps_its_order(
    found: dict[str, list[dict[str, Any]]], limit: int
) -> None:
    kept, cut = fit_results(found, limit, len)
    assert kept.keys() == found.keys()
    cost = sum(len(json.dumps(one, ensure_ascii=False)) for one_s in kept.values() for one in one_s)
    assert cost <= limit
    for name, all_ in found.items():
        assert len(kept[name]) <= len(all_)
        if name not in cut:
            assert kept[name] == all_
        elif kept[name]:
            assert kept[name][1:] == all_[1 : len(kept[name])]


def test_names_of_sources_become_names_of_values() -> None:
    values = dependent_values("my-source 一", [{"the id": 1}, {"x": 2}])
    assert values == {
        "my_source_一": [{"the id": 1}, {"x": 2}],
        "my_source_一__the_id": 1,
        "my_source_一__all__the_id": [1, None],
        "my_source_一__x": None,
        "my_source_一__all__x": [None, 2],
    }
    assert dependent_values("a", []) == {"a": []}


@pytest.mark.parametrize("name", ["cases.yaml", "script.yaml"])
def test_cases_that_are_no_utf8_are_named(tmp_path: Path, name: str) -> None:
    case = "cases: [{name: a, message: m}]\nscript: script.yaml\n"
    for one, text in {"cases.yaml": case, "script.yaml": "answers: []"}.items():
        (tmp_path / one).write_bytes(text.encode("utf-16" if one == name else "utf-8"))
    with pytest.raises(InvalidInputError, match=f"{name}” is not UTF-8"):
        read_cases(tmp_path)
