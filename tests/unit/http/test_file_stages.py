"""Files sent along: what they are, what their addresses hold, how their texts are ranked."""

from __future__ import annotations

import base64
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import DocumentError, InvalidInputError, LimitError
from rag.core.hits import Hit
from rag.core.types import Citation
from rag.providers.http.download import BudgetedFile, ByteBudget
from rag.stages.citing.verify import AnswerWriter, Part
from rag.stages.detect.mime_type import read_data_url, sniff_media
from rag.stages.prompting.context import Passage
from rag.stages.query.condense import infer_question
from rag.stages.ranking.bm25 import bm25_scores

SAMPLES = {
    "png": (b"\x89PNG\r\n\x1a\n" + b"\0" * 9, "image/png"),
    "jpg": (b"\xff\xd8\xff\xe0" + b"\0" * 9, "image/jpeg"),
    "gif": (b"GIF89a" + b"\0" * 9, "image/gif"),
    "webp": (b"RIFF\x04\0\0\0WEBPVP8 ", "image/webp"),
    "pdf": (b"%PDF-1.4\n1 0 obj\n", "application/pdf"),
    "txt": (b"plain words", "text/plain"),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_content_says_what_a_file_is(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    content, mime_type = SAMPLES[kind]
    path.write_bytes(content)
    assert sniff_media(path, "wrong.docx") == (kind, mime_type)
    if kind == "txt":
        assert sniff_media(path, "notes.md") == ("md", "text/markdown")


@pytest.mark.parametrize(
    ("content", "name", "error"),
    [
        (b"", "a.txt", DocumentError),
        (b" \n", "a.txt", DocumentError),
        (b"<!doctype html><p>x", "a.pdf", InvalidInputError),
        (b"a,b\n1,2", "a.csv", InvalidInputError),
        (b"\x1f\x8b\x08", "a.txt", DocumentError),
        (b"BM\0\0\0\0\0\0\0\0xx", "a.bmp", InvalidInputError),
    ],
)
def test_other_kinds_are_refused_by_name(
    tmp_path: Path, content: bytes, name: str, error: type[Exception]
) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(error, match=name):
        sniff_media(path, name)


@given(st.binary(max_size=200))
def test_a_data_address_holds_its_bytes_either_way(raw: bytes) -> None:
    standard = base64.b64encode(raw).decode()
    urlsafe = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    percent = "".join(f"%{byte:02x}" for byte in raw)
    for url in (
        f"data:;base64,{standard}",
        f"DATA:text/plain;charset=utf-8;base64,{urlsafe}",
        f"data:,{percent}",
        f"data:;base64,{standard[:5]}\n{standard[5:]}",
    ):
        assert read_data_url(url, name="x", max_bytes=1000) == raw


def test_a_data_address_that_is_broken_or_too_large_is_refused() -> None:
    for url in ("data:text/plain", "nothing,x", "data:;base64,@@", "data:;base64,A"):
        with pytest.raises(InvalidInputError, match="x.txt"):
            read_data_url(url, name="x.txt", max_bytes=10)
    with pytest.raises(LimitError, match="larger"):
        read_data_url("data:,12345678901", name="x.txt", max_bytes=10)


@pytest.mark.parametrize("head", ["data:,", "data:;base64,"])
def test_half_a_character_in_a_data_address_is_refused(head: str) -> None:
    with pytest.raises(InvalidInputError, match="“x.txt” holds half a character"):
        read_data_url(f"{head}a\ud800", name="x.txt", max_bytes=10)


def test_a_text_with_the_rare_words_of_the_question_ranks_first() -> None:
    texts = ["the lamp is blue and the lamp is big", "保固期為兩年", "the lamp", "nothing else"]
    scores = bm25_scores("how blue is the lamp", texts)
    assert scores.index(max(scores)) == 0 and scores[3] == scores[1] == 0
    assert max(range(4), key=bm25_scores("保固期多久", texts).__getitem__) == 1
    assert bm25_scores("a", []) == []


def test_ranking_can_be_ended() -> None:
    def end() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        bm25_scores("a", ["b"], check=end)


@pytest.mark.parametrize(
    ("context", "text"),
    [
        ({}, ""),
        ({"_meta": {"nodeLabels": {"a": "b"}}}, ""),
        ({"a": {"user_input": "first"}, "b": {"text": "second"}}, "second"),
        ({"a": {"user_input": " what? "}, "b": {"files": []}}, "what?"),
        ({"a": {"zeta": "odd", "query": "asked"}}, "asked"),
        ({"a": {"zeta": "odd", "n": 5}}, "odd"),
        ({"a": "plain"}, "plain"),
        ({"a": {"url": "https://x/y"}, "b": {"url": "data:,x"}}, ""),
        ({"a": {"text": " "}, "b": {"text": None}, "c": 5}, ""),
    ],
)
def test_the_nearest_likely_text_is_the_question(context: dict[str, object], text: str) -> None:
    assert infer_question(context) == text


def passage(text: str) -> Passage:
    return Passage("doc_01", Hit(text=text, rank=1, char_end=len(text)), text)


ANSWER = (
    'Well. <cite doc_id="doc_01" quote="The warranty lasts two years.">The warranty lasts two '
    'years.</cite> And <cite doc_id="doc_01" quote="It covers parts">parts</cite>.'
)


@given(st.lists(st.integers(1, 40), max_size=30))
def test_marks_are_taken_out_however_the_answer_is_cut(sizes: list[int]) -> None:
    sources = [passage("The warranty lasts two years. It covers parts and labour.")]
    reader = AnswerWriter(sources, marks="spans")
    parts, at = list[Part](), 0
    for size in [*sizes, len(ANSWER)]:
        parts += reader.feed(ANSWER[at : at + size])
        at += size
    parts += reader.finish()
    text = "".join(part for part in parts if isinstance(part, str))
    citations = [part for part in parts if isinstance(part, Citation)]
    assert text == "Well. The warranty lasts two years. And parts."
    assert [text[start:end] for start, end in reader.spans] == [
        "The warranty lasts two years.",
        "parts",
    ]
    assert [one.number for one in citations] == [1, 2]
    assert citations[0].verdict == "verified"


def test_a_bare_number_marks_its_sentence() -> None:
    reader = AnswerWriter([passage("It covers parts.")], marks="spans")
    parts = [*reader.feed("It covers parts. [1] More."), *reader.finish()]
    text = "".join(part for part in parts if isinstance(part, str))
    assert text.split() == ["It", "covers", "parts.", "More."]
    (start, end), *_ = reader.spans
    assert text[start:end] == "It covers parts."


def test_files_share_a_budget_and_give_back_what_they_cut_off(tmp_path: Path) -> None:
    budget = ByteBudget(total=100, each=80)
    with (
        BudgetedFile(tmp_path / "a", budget) as first,
        BudgetedFile(tmp_path / "b", budget) as second,
    ):
        first.write(b"x" * 60)
        with pytest.raises(LimitError, match="together"):
            second.write(b"y" * 50)
        first.seek(0)
        first.truncate()
        second.write(memoryview(b"y" * 50))
        first.write(b"z" * 50)
    assert (tmp_path / "a").read_bytes() == b"z" * 50
    assert (tmp_path / "b").read_bytes() == b"y" * 50


def test_threads_do_not_overdraw_a_budget() -> None:
    budget, taken = ByteBudget(total=1000, each=1000), []

    def take() -> None:
        for _ in range(100):
            try:
                budget.take(3)
                taken.append(3)
            except LimitError:
                return

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == 999
