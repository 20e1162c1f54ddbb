"""Data folders: what is read, and the sentence for everything that cannot be."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import InvalidInputError
from rag.evals.datasets import read_dataset

CORPUS: list[Any] = [
    {"_id": "d1", "title": "Pumps", "text": "A pump moves water."},
    {"_id": "d2", "title": "", "text": "阀门控制水流。"},
]
QUERIES: list[Any] = [
    {"_id": "q1", "text": "What moves water?"},
    {"_id": "q2", "text": "什么控制水流？"},
]
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t2\n"


def write(folder: Path, corpus: Any = CORPUS, queries: Any = QUERIES, qrels: str = QRELS) -> Path:
    folder.mkdir(exist_ok=True)
    for name, rows in (("corpus.jsonl", corpus), ("queries.jsonl", queries)):
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "qrels.tsv").write_text(qrels, encoding="utf-8")
    return folder


def message(folder: Path, queries: Path | None = None) -> str:
    with pytest.raises(InvalidInputError) as caught:
        read_dataset(folder, query_folder=queries)
    return str(caught.value)


def test_a_folder_becomes_documents_queries_and_judgements(tmp_path: Path) -> None:
    found = read_dataset(write(tmp_path / "small"))
    assert (found.name, found.corpus) == ("small", "small")
    assert found.documents == {"d1": "Pumps\nA pump moves water.", "d2": "阀门控制水流。"}
    assert list(found.queries) == ["q1", "q2"]
    assert found.judgements == {"q1": {"d1": 1}, "q2": {"d2": 2}}


def test_a_file_may_begin_with_a_mark_and_have_empty_lines(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    for name in ("corpus.jsonl", "queries.jsonl", "qrels.tsv"):
        text = (folder / name).read_text(encoding="utf-8")
        (folder / name).write_text(f"\ufeff{text}\r\n\n", encoding="utf-8")
    assert len(read_dataset(folder).documents) == 2


def test_judgements_need_no_header(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", qrels="q1\td1\t1\n")
    assert read_dataset(folder).judgements == {"q1": {"d1": 1}}


def test_a_negative_grade_is_not_relevant(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", qrels="q1\td1\t1\nq1\td2\t-1\n")
    assert read_dataset(folder).judgements == {"q1": {"d1": 1, "d2": 0}}


def test_numbers_may_serve_as_ids(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", corpus=[{"_id": 7, "text": "x"}], qrels="q1\t7\t1\n")
    assert list(read_dataset(folder).documents) == ["7"]


def test_texts_lose_what_a_database_cannot_hold(tmp_path: Path) -> None:
    corpus = ['{"_id": "d1", "text": "a\\u0000b \\ud800 c"}', CORPUS[1]]
    assert read_dataset(write(tmp_path / "a", corpus=corpus)).documents["d1"] == "a b ? c"


def test_documents_and_queries_without_text_are_left_out(tmp_path: Path) -> None:
    corpus = [*CORPUS, {"_id": "d3", "title": " ", "text": "\n"}]
    queries = [*QUERIES, {"_id": "q3", "text": "  "}]
    found = read_dataset(write(tmp_path / "a", corpus=corpus, queries=queries))
    assert "d3" not in found.documents
    assert "q3" not in found.queries


def test_a_limit_keeps_the_first_judged_queries_and_all_documents(tmp_path: Path) -> None:
    queries = [{"_id": "unjudged", "text": "?"}, *QUERIES]
    found = read_dataset(write(tmp_path / "a", queries=queries))
    assert list(found.limited(1).queries) == ["q1"]
    assert list(found.limited(1).judgements) == ["q1"]
    assert list(found.limited(None).queries) == ["q1", "q2"]
    assert len(found.limited(1).documents) == 2


def test_queries_of_another_folder_use_this_folders_judgements(tmp_path: Path) -> None:
    write(tmp_path / "en")
    write(
        tmp_path / "zh",
        corpus=[{"_id": "other", "text": "x"}],
        queries=[{"_id": "q1", "text": "什么输送水？"}],
        qrels="q1\tother\t1\n",
    )
    found = read_dataset(tmp_path / "en", query_folder=tmp_path / "zh")
    assert (found.name, found.corpus) == ("zh on en", "en")
    assert found.queries == {"q1": "什么输送水？"}
    assert found.judgements["q1"] == {"d1": 1}


def test_the_same_folder_twice_keeps_its_name(tmp_path: Path) -> None:
    folder = write(tmp_path / "en")
    assert read_dataset(folder, query_folder=folder / ".").name == "en"


def test_queries_that_share_no_id_are_an_error(tmp_path: Path) -> None:
    write(tmp_path / "a")
    write(tmp_path / "b", queries=[{"_id": "else", "text": "?"}])
    assert "share their ids" in message(tmp_path / "a", tmp_path / "b")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert "nowhere" in message(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path / "a")
    (folder / name).unlink()
    assert name in message(folder)


def test_another_encoding_than_utf8_is_an_error(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    (folder / "corpus.jsonl").write_bytes('{"_id": "d1", "text": "水泵和阀门"}'.encode("gb18030"))
    assert "UTF-8" in message(folder)


@pytest.mark.parametrize(
    ("row", "part"),
    [
        ("{oops", "line 3: no JSON"),
        ("[1]", "line 3: not a JSON object"),
        ('{"_id": "d3"}', "“text” is no text"),
        ('{"_id": "d3", "text": 5}', "“text” is no text"),
        ('{"text": "x"}', "“_id” is no text"),
        ('{"_id": "", "text": "x"}', "“_id” is no text"),
        ('{"_id": true, "text": "x"}', "“_id” is no text"),
        ('{"_id": "d1", "text": "again"}', "the id d1 was used before"),
    ],
)
def test_a_bad_row_is_an_error_with_its_line(tmp_path: Path, row: str, part: str) -> None:
    assert part in message(write(tmp_path / "a", corpus=[*CORPUS, row]))


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("q1 d1 1", "1 fields"),
        ("q1\td1", "2 fields"),
        ("q1\td1\tgood", "the score “good”"),
        ("q1\td1\t1.5", "the score “1.5”"),
        ("q1\td1\t²", "the score “²”"),
        ("q1\td1\t101", "the score “101”"),
        ("q1\tlost\t1", "judges document lost"),
    ],
)
def test_a_bad_judgement_is_an_error(tmp_path: Path, line: str, part: str) -> None:
    assert part in message(write(tmp_path / "a", qrels=f"{QRELS}{line}\n"))


def test_an_unknown_document_that_is_not_relevant_does_no_harm(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", qrels=f"{QRELS}q1\tlost\t0\n")
    assert read_dataset(folder).judgements["q1"] == {"d1": 1, "lost": 0}


@given(st.text(max_size=60))
def test_any_line_is_read_or_refused_with_a_sentence(line: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = write(Path(folder) / "a")
        for name in ("corpus.jsonl", "queries.jsonl", "qrels.tsv"):
            raw = (root / name).read_bytes()
            (root / name).write_bytes(raw + line.encode("utf-8", "surrogatepass") + b"\n")
            try:
                read_dataset(root)
            except InvalidInputError as error:
                assert name in str(error)
            (root / name).write_bytes(raw)


@pytest.mark.parametrize("grade", ["--1", "-", "1-", "²", "+1", "1.0"])
def test_a_score_that_only_looks_like_a_number_is_told_with_its_line(
    tmp_path: Path, grade: str
) -> None:
    folder = write(tmp_path)
    (folder / "qrels.tsv").write_text(f"q1\td1\t1\nq2\td1\t{grade}\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="line 2: the score"):
        read_dataset(folder)
