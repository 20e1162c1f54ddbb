"""Chunks that read well: whole sentences first, lists with their lead, tables with their caption."""

from __future__ import annotations

import pytest

from rag.core.documents import Chunk, ChunkRule, ParsedDocument
from rag.stages.chunking.chunk import chunk_document
from rag.stages.parse.text.plain import markdown_blocks
from tests.unit.cutting import unigram

TOKENIZER = unigram()


def cut(text: str, size: int = 60, overlap: int = 20, kind: str = "md") -> list[Chunk]:
    blocks = tuple(markdown_blocks(text)) if kind == "md" else ()
    document = ParsedDocument(kind, text, "test/1", blocks=blocks)
    return list(chunk_document(document, ChunkRule(size, overlap), TOKENIZER))


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("It stops. ", "The valve of the pump is closed by hand before the next run begins. "),
        ("水泵停。", "阀门在水泵运转之前由操作员用手关闭并且在运转之后再次打开以便检查。"),
    ],
)
def test_a_chunk_begins_with_a_sentence_and_repeats_whole_ones_alone(short: str, long: str) -> None:
    text = (short + 3 * long) * 12
    chunks = cut(text, 70, 12)
    starts = (short[:3], long[:3])
    assert all(chunk.text.startswith(starts) for chunk in chunks)
    repeated = [text[chunk.char_start : chunk.own_start] for chunk in chunks]
    assert set(repeated) <= {"", short}
    assert short in repeated and "" in repeated


PROSE = "The pump is closed by hand before each run of the plant begins. " * 2


@pytest.mark.parametrize("kind", ["md", "txt"])
@pytest.mark.parametrize("gap", ["\n", "\n\n"])
@pytest.mark.parametrize(
    ("lead", "item"),
    [
        ("These parts are needed:", "- part {n} of the pump"),
        ("维修需要以下部件：", "（{n}）水泵的部件"),
        ("Do this in turn:", "{n}. close valve {n}"),
    ],
)
def test_a_list_stays_with_its_lead(kind: str, gap: str, lead: str, item: str) -> None:
    items = [item.format(n=n) for n in range(1, 31)]
    for n_before in range(1, 5):
        text = PROSE * n_before + lead + gap + "\n".join(items) + "\n"
        chunks = cut(text, 80, 10, kind)
        assert not any(chunk.text.endswith(lead) for chunk in chunks)
        (first,) = [c for c in chunks if items[0] in c.text.split("\n")]
        assert lead in first.text
        going_on = [chunk for chunk in chunks if chunk.own_start > first.own_start]
        assert going_on and {chunk.context for chunk in going_on} == {lead}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Table 3. Prices of all pumps. In euro.", ""),
        ("表3 水泵价格", ""),
        ("", "Table 4: Prices of all pumps"),
    ],
)
def test_a_table_stays_with_its_caption(before: str, after: str) -> None:
    rows = ["| Pump | Price |", "| --- | --- |", *[f"| HX-{n} | {n} |" for n in range(6)]]
    for n_before in range(8):
        parts = [PROSE[:64] * n_before, before, "\n".join(rows), after, PROSE]
        text = "\n\n".join(part for part in parts if part)
        chunks = cut(text, 110, 0)
        caption = before or after
        (holder,) = [chunk for chunk in chunks if caption in chunk.text]
        near = rows[0] if before else rows[-1]
        assert near in holder.text


def test_a_lead_that_leaves_no_room_is_parted_from_its_list_between_sentences() -> None:
    lead = "所有部件和所有工具和所有阀门" * 6 + "："
    text = lead + "\n- " + "第一项说明水泵的阀门" * 6 + "\n- 第二项"
    chunks = cut(text, 100, 0)
    assert chunks[0].text == lead


def test_text_after_a_list_carries_no_lead() -> None:
    text = "These are needed:\n\n- a pump\n- a valve\n\n" + PROSE * 4
    assert {chunk.context for chunk in cut(text, 50, 0)} == {""}
