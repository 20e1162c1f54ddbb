"""Data files: JSON, YAML, XML, settings, notebooks and subtitles by their structure."""

from __future__ import annotations

import json
from pathlib import Path
from time import monotonic

import pytest
import yaml

from rag.core.documents import ParsedDocument
from rag.stages.parse import parse_document
from rag.stages.parse.data import tree, yaml_file


def read(folder: Path, name: str, data: str | bytes) -> ParsedDocument:
    path = folder / "upload"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return parse_document(path, name)


def blocks(document: ParsedDocument) -> list[tuple[str, str]]:
    return [(one.kind, document.text[one.start : one.end]) for one in document.blocks]


CONFIG = {"servers": {"web": {"port": 8080, "tags": ["a", "b"]}, "db": {"port": 5432}}}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.json", json.dumps(CONFIG)),
        ("a.yaml", yaml.safe_dump(CONFIG, sort_keys=False)),
        ("a.yml", yaml.safe_dump(CONFIG, default_flow_style=True, sort_keys=False)),
    ],
)
def test_values_stand_with_their_paths(tmp_path: Path, name: str, data: str) -> None:
    document = read(tmp_path, name, data)
    assert document.text.split("\n") == [
        "servers › web › port: 8080",
        "servers › web › tags: a, b",
        "servers › db › port: 5432",
    ]
    assert [one.kind for one in document.blocks] == ["code"]


def test_what_fits_no_chunk_stands_below_its_path(tmp_path: Path) -> None:
    many = {f"key{n}": "word " * 12 for n in range(12)}
    data = {"version": "1.10", "servers": {"web": many, "n": 2}, "last": True}
    found = blocks(read(tmp_path, "a.json", json.dumps(data)))
    assert found[0] == ("code", "version: 1.10\nlast: true")
    assert found[1:3] == [("heading", "servers"), ("code", "n: 2")]
    assert found[3] == ("heading", "servers › web")
    assert all(kind == "code" for kind, _ in found[4:])
    assert found[4][1].startswith("key0: word")


def test_records_of_json_and_of_json_lines_are_whole(tmp_path: Path) -> None:
    people = [{"name": "王伟", "address": {"city": "北京"}, "n": 1.50}, {"name": "Al", "n": None}]
    whole = ["name: 王伟\naddress › city: 北京\nn: 1.5", "name: Al\nn: null"]
    as_lines = "\n".join(json.dumps(one) for one in people)
    for name, data in (
        ("a.json", json.dumps(people)),
        ("a.json", as_lines),
        ("a.jsonl", as_lines + "\n\n"),
        ("a.ndjson", as_lines.encode("utf-8-sig")),
    ):
        document = read(tmp_path, name, data)
        assert [text for _, text in blocks(document)] == whole, name
        assert not document.warnings


def test_numbers_and_keys_of_json_stay_as_they_are_written(tmp_path: Path) -> None:
    data = '{"v": 1.10, "id": 12345678901234567890123, "v": 2e400, "x": {}, "y": [], "z": NaN}'
    text = read(tmp_path, "a.json", data).text
    assert text == "v: 1.10\nid: 12345678901234567890123\nv: 2e400\nx: {}\ny: []\nz: NaN"


def test_a_line_that_is_no_json_is_kept_and_told(tmp_path: Path) -> None:
    lines = [json.dumps({"n": n}) for n in range(20)]
    document = read(tmp_path, "a.jsonl", "\n".join([*lines, "{broken"]))
    assert document.text.endswith("n: 19\n\n{broken")
    assert [str(one) for one in document.warnings] == ["Lines that are no JSON, read as text: 1."]


def test_packed_bytes_are_left_out_and_told(tmp_path: Path) -> None:
    data = {"name": "logo", "png": "iVBORw0KGgo" * 200, "prose": "words of a text " * 60}
    document = read(tmp_path, "a.json", json.dumps(data))
    assert "iVBOR" not in document.text and "words of a text" in document.text
    assert document.warnings[0].message == tree.PACKED_NOTICE


def test_comments_and_anchors_of_yaml_stay(tmp_path: Path) -> None:
    data = """# Deployment
version: "3.10"   # keep quoted
base: &b
  retries: 3
job:
  # at night
  <<: *b
  script: |
    one # no comment
    two
# the end
--- # another
- !!python/object/apply:os.system ["echo"]
"""
    assert read(tmp_path, "a.yaml", data).text.split("\n") == [
        "# Deployment",
        "version: 3.10  # keep quoted",
        "base › retries: 3",
        "# at night",
        "job › <<: *b",
        "job › script: one # no comment",
        "two",
        "# the end",
        "",
        "1: echo",
    ]


def test_elements_of_xml_stand_with_their_paths(tmp_path: Path) -> None:
    data = """<?xml version="1.0" encoding="gb2312"?><!DOCTYPE c><c xmlns="urn:x">
    <book id="1"><title>零件 <b>Gui</b>de</title><price cur="EUR">44.95</price></book>
    <book id="2"><title>Rain</title></book></c>""".encode("gb18030")
    assert read(tmp_path, "a.xml", data).text.split("\n") == [
        "c › book › @id: 1",
        "c › book › title: 零件 Guide",
        "c › book › price: 44.95",
        "c › book › price › @cur: EUR",
        "c › book › @id: 2",
        "c › book › title: Rain",
    ]


def test_sections_are_paths_and_lines_stay(tmp_path: Path) -> None:
    toml = '# all\nt = 1\n[servers."web.one"] # here\nport = 80\ntext = """\n[no section]\n"""\n\n[[user]]\nname = "Bob"\n'
    assert blocks(read(tmp_path, "a.toml", toml)) == [
        ("code", "# all\nt = 1"),
        ("heading", "servers › web.one"),
        ("code", 'port = 80\ntext = """\n[no section]\n"""'),
        ("heading", "user"),
        ("code", 'name = "Bob"'),
    ]
    ini = '[remote "origin"]\nurl = x\n[a.b]\n; note\nk: v\n'
    assert [text for _, text in blocks(read(tmp_path, "a.ini", ini))] == [
        "remote › origin",
        "url = x",
        "a.b",
        "; note\nk: v",
    ]
    java = "# 注\ngreeting=\\u4f60\\u597d \\ud83d\\ude00\n\nserver.port=8080\n".encode()
    assert read(tmp_path, "a.properties", java).text == "# 注\ngreeting=你好 😀\n\nserver.port=8080"


def test_a_notebook_is_its_cells_without_pictures(tmp_path: Path) -> None:
    image = {"image/png": "iVBORw0KGgo=", "text/plain": ["<Figure size 640x480>"]}
    cells = [
        {
            "cell_type": "markdown",
            "source": ["# Report\n", "\n", "Some text ![x](data:image/png;base64,iVBO)\n"],
        },
        {
            "cell_type": "code",
            "source": "print(1)",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["1\n", "2\n"]},
                {"output_type": "display_data", "data": image},
                {
                    "output_type": "error",
                    "ename": "ValueError",
                    "evalue": "no",
                    "traceback": ["\x1b[31m"],
                },
            ],
        },
    ]
    data = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    document = read(tmp_path, "a.ipynb", json.dumps(data))
    assert blocks(document) == [
        ("heading", "# Report"),
        ("paragraph", "Some text ![x]()"),
        ("code", "print(1)"),
        ("code", "1\n2"),
        ("code", "<Figure size 640x480>"),
        ("code", "ValueError: no"),
    ]
    assert [str(one) for one in document.warnings] == ["Images in its outputs are not read: 1."]


def test_subtitles_are_sentences_with_times(tmp_path: Path) -> None:
    srt = """1\r
00:00:01,000 --> 00:00:03,000\r
Welcome to the\r
<i>machine course</i>.\r
\r
2\r
00:00:03,500 --> 00:00:05,000\r
{\\an8}The torque is 30 Nm.\r
\r
3\r
01:01:05,500 --> 01:01:07,000\r
安全帽必须\r
戴好\r
"""
    said = (
        "[0:00:01] Welcome to the machine course. The torque is 30 Nm.\n\n[1:01:05] 安全帽必须戴好"
    )
    assert read(tmp_path, "a.srt", srt).text == said
    vtt = """WEBVTT

NOTE nobody hears this

00:01.000 --> 00:04.000 align:start
<v Roger>Mind the<00:02.000><c> gap</c>

intro
00:04.000 --> 00:06.000
<v Roger>Mind the gap
R&amp;D begins
"""
    assert read(tmp_path, "a.vtt", vtt).text == "[0:00:01] Roger: Mind the gap R&D begins"


LAUGHS = "<!DOCTYPE l [<!ENTITY a 'ha'>" + "".join(
    f"<!ENTITY a{n} '{'&a' + str(n - 1) + ';' if n > 1 else '&a;'}'>" for n in range(1, 9)
)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.json", "[" * 1_000_000, "nested too deeply"),
        ("a.json", "[" * 900 + "1" + "]" * 900, "nested too deeply"),
        ("a.json", '{"a": 1, "b": tru', "line 1: Expecting value"),
        ("a.json", '[{"a": 1}, {"a"', "line 1"),
        ("a.jsonl", "no\njson\nat all\n", "most of its lines are no JSON"),
        ("a.yaml", "[" * 60_000, "nest"),
        ("a.yaml", "- " * 2_000 + "x", "nested too deeply"),
        ("a.yaml", "a: {{ .Values.x }}\nb: [", "line"),
        ("a.yaml", "word: 1\n" * 10_000, "very large"),
        ("a.xml", LAUGHS + "]><l>&a8;</l>", "declares entities"),
        (
            "a.xml",
            "<!DOCTYPE l [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><l>&x;</l>",
            "declares entities",
        ),
        ("a.xml", "<a>" * 100_000, "nested too deeply"),
        ("a.xml", "<a><b>half", "no element found"),
        ("a.ipynb", '{"cells": 3}', "no notebook"),
        ("a.ipynb", '["cells"]', "no notebook"),
        ("a.srt", "only words", "no subtitles"),
    ],
)
def test_what_cannot_be_read_by_its_structure_is_text_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: str, reason: str
) -> None:
    monkeypatch.setattr(yaml_file, "_MAX_CHARS", 70_000)
    begun = monotonic()
    document = read(tmp_path, name, data)
    assert monotonic() - begun < 5
    assert document.text.strip()
    assert "/root:" not in document.text
    assert document.warnings[0].message == "It is read as plain text: {reason}."
    assert reason in document.warnings[0].params["reason"]


def test_anchors_are_not_followed(tmp_path: Path) -> None:
    lines = ["a0: &a0 ha"] + [
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)
    ]
    document = read(tmp_path, "a.yaml", "\n".join(lines))
    assert len(document.text) < 2_000


def test_a_hundred_thousand_records_are_bounded_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "_MOST_BLOCKS", 50)
    data = "\n".join(f'{{"id": {n}, "name": "part {n}"}}' for n in range(5_000))
    document = read(tmp_path, "a.jsonl", data)
    assert len(document.blocks) == 50 + 50
    assert document.text.count("name: part") == 5_000


def test_a_name_that_lies_is_told(tmp_path: Path) -> None:
    document = read(tmp_path, "a.docx", "<!doctype html><p>Words of a page</p>")
    assert [str(one) for one in document.warnings] == [
        "By its name it is .docx, by its content .html: it is read as that."
    ]
    assert not read(tmp_path, "a.log", "words").warnings
