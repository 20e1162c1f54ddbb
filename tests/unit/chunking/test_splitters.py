"""Chunking templates: what each of them keeps together and parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag.core.documents import Chunk, ChunkRule, Page, ParsedDocument
from rag.core.plugins import PLUGINS
from rag.plugins.contract_documents import SplitterContract
from rag.stages.chunking import splitters
from rag.stages.chunking.chunk import chunk_document
from rag.stages.chunking.splitters.parent_child import ParentChildSplitter
from rag.stages.parse.text.plain import markdown_blocks
from tests.unit.cutting import unigram

TOKENIZER = unigram()
MARK = "¦"
CASES = Path(__file__).with_name("template_cases.txt").read_text("utf-8").split("=== ")[1:]
OURS = [
    name for name in PLUGINS.names("splitter") if name == "sentences" or hasattr(splitters, name)
]
LINE = "The pump is closed by hand before each run of the plant begins. "


def cut(name: str, text: str, size: int = 80, kind: str = "md", **facts: Any) -> list[Chunk]:
    if kind == "md":
        facts.setdefault("blocks", tuple(markdown_blocks(text)))
    document = ParsedDocument(kind, text, "test/1", **facts)
    plugin = PLUGINS.get("splitter", name)
    cutter = plugin(plugin.Options())
    return list(chunk_document(document, ChunkRule(size, 10), TOKENIZER, (), cutter))


@pytest.mark.parametrize("case", CASES)
def test_what_begins_a_chunk(case: str) -> None:
    """Each case has a mark where a chunk is to begin."""
    head, _, marked = case.partition("\n")
    name, kind = head.split()
    parts = marked.split(MARK)[1:]
    made = cut(name, "".join(parts), 400, kind)
    assert [chunk.text[chunk.own_start - chunk.char_start :] for chunk in made] == [
        part.strip() for part in parts
    ]


@pytest.mark.parametrize("case", CASES)
def test_what_people_edit_moves_no_other_chunk(case: str) -> None:
    head, _, marked = case.partition("\n")
    name, kind = head.split()
    text = marked.replace(MARK, "")
    spans = [(chunk.own_start, chunk.char_end) for chunk in cut(name, text, 400, kind)]
    blocks = tuple(markdown_blocks(text)) if kind == "md" else ()
    document = ParsedDocument(kind, text, "test/1", blocks=blocks)
    plugin = PLUGINS.get("splitter", name)
    for low, high in spans:
        # An edit may reach less far than its chunk.
        for hole in ((low, high), (low, high - 1)):
            made = chunk_document(
                document, ChunkRule(400, 10), TOKENIZER, [hole], plugin(plugin.Options())
            )
            others = [(chunk.own_start, chunk.char_end) for chunk in made]
            assert {one for one in spans if one != (low, high)} <= set(others)


@pytest.mark.parametrize(
    ("name", "first", "carried"),
    [
        ("laws", "第十二条　", "第十二条"),
        ("laws", "Article 12\n", "Article 12"),
        ("book", "Chapter 3: Pumps\n", "Chapter 3: Pumps"),
        ("paper", "2.1 Method of work\n", "2.1 Method of work"),
        ("qa", "Q: Does it run?\nA: ", "Q: Does it run?"),
    ],
)
def test_what_goes_on_carries_its_title(name: str, first: str, carried: str) -> None:
    chunks = cut(name, first + LINE * 20, kind="txt")
    assert len(chunks) > 3
    assert {chunk.context for chunk in chunks} == {"", carried}
    assert chunks[0].context == ""


def test_a_slide_is_a_chunk_and_a_full_one_is_cut_within() -> None:
    slides = ["1\n\n# Pumps\n\nThey run.", "# Valves", "# Hoses\n\n" + LINE * 20, "End."]
    pages, at = [], 0
    for number, slide in enumerate(slides, start=1):
        pages.append(Page(number, str(number), at, at + len(slide)))
        at += len(slide) + 1
    chunks = cut("slides", "\f".join(slides), pages=tuple(pages))
    assert [(chunk.page_first, chunk.page_last) for chunk in chunks[:2]] == [(1, 1), (2, 2)]
    full = chunks[2:-1]
    assert len(full) > 2 and {(one.page_first, one.page_last) for one in full} == {(3, 3)}
    assert {one.context for one in full[1:]} == {"Hoses"}
    assert chunks[-1].text == "End."


def test_a_row_has_its_header_in_its_text_or_carries_it() -> None:
    chunks = cut("rows", "| Pump | Price |\n|---|---|\n| A | 1 |\n| B | 2 |\n| C | 3 |")
    assert [chunk.context for chunk in chunks] == ["", "| Pump | Price |", "| Pump | Price |"]


def test_chunks_of_a_passage_name_it_and_stay_within() -> None:
    text = LINE * 100
    chunks = cut("parent_child", text, 60, "txt")
    passages: dict[int | None, list[Chunk]] = {}
    for chunk in chunks:
        passages.setdefault(chunk.parent_start, []).append(chunk)
    assert None not in passages
    assert len(passages) >= 5
    for start, some in passages.items():
        assert some[0].char_start == some[0].own_start == start
        whole = text[some[0].char_start : some[-1].char_end]
        assert 60 < TOKENIZER.count(whole) <= 4 * 60
        assert all(one.char_start >= some[0].char_start for one in some)
    assert {chunk.parent_start for chunk in cut("sentences", text, 60, "txt")} == {None}
    three = ParentChildSplitter(ParentChildSplitter.Options(times=2))
    document = ParsedDocument("txt", text, "test/1")
    made = chunk_document(document, ChunkRule(60, 10), TOKENIZER, (), three)
    assert len({chunk.parent_start for chunk in made}) > len(passages)


@pytest.mark.parametrize("name", OURS)
def test_it_is_called_and_described(name: str) -> None:
    plugin = PLUGINS.get("splitter", name)
    assert plugin.__module__.rpartition(".")[2] in (name, "pack")
    assert plugin.label and plugin.description.endswith(".")


@pytest.mark.parametrize("name", OURS)
def test_it_keeps_the_contract(name: str) -> None:
    contract = SplitterContract()
    contract.plugin = PLUGINS.get("splitter", name)
    contract.test_all_text_is_in_one_own_part()
    contract.test_chunks_fit_the_rule()
    contract.test_edited_chunks_are_left_alone()


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize(
    "line", ["# 水泵\n", "第一条 停。\n", "| a | b |\n", "Q: x?\n", "- a:\n", "def f():\n  1\n\n"]
)
def test_many_parts_cost_no_more_than_text(name: str, line: str) -> None:
    assert cut(name, line * 1500)
