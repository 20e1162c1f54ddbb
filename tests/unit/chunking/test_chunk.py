"""Chunks: exact spans, a bound that holds, nothing lost, sections and tables respected."""

from __future__ import annotations

import time
import tracemalloc
from itertools import islice

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag.core.documents import Block, Chunk, ChunkRule, Page, ParsedDocument
from rag.core.ports import Tokenizer
from rag.providers.e5.tokenizer import E5Tokenizer
from rag.stages.chunking.chunk import chunk_document
from rag.stages.chunking.pack import MAX_CHARS_PER_TOKEN
from rag.stages.parse.text.plain import markdown_blocks
from tests.unit.cutting import byte_level, documents, unigram, word_level

TOKENIZERS = {t.id: t for t in (unigram(), word_level(), byte_level())}
RULES = st.builds(ChunkRule, st.integers(50, 500), st.integers(0, 100))


def cut(
    text: str, rule: ChunkRule | None = None, tokenizer: Tokenizer | None = None, **facts: object
) -> list[Chunk]:
    document = ParsedDocument("txt", text, "test/1", **facts)  # type: ignore[arg-type]
    return checked(document, rule or ChunkRule(), tokenizer or TOKENIZERS["unigram"])


def cut_markdown(text: str, rule: ChunkRule | None = None) -> list[Chunk]:
    return cut(text, rule, blocks=tuple(markdown_blocks(text)))


def checked(document: ParsedDocument, rule: ChunkRule, tokenizer: Tokenizer) -> list[Chunk]:
    """Return the chunks after holding them to everything that is true of all chunks."""
    chunks = list(chunk_document(document, rule, tokenizer))
    text, last = document.text, 0
    for ordinal, chunk in enumerate(chunks):
        assert chunk.ordinal == ordinal
        assert text[chunk.char_start : chunk.char_end] == chunk.text
        assert chunk.char_start <= chunk.own_start < chunk.char_end
        assert not text[last : chunk.own_start].strip()
        assert chunk.own_start >= last
        assert chunk.text.strip() == chunk.text
        assert chunk.token_count == tokenizer.count(chunk.text) <= rule.max_tokens
        if chunk.context:
            assert tokenizer.count(f"{chunk.context}\n{chunk.text}") <= rule.max_tokens
        overlap = text[chunk.char_start : chunk.own_start].rstrip()
        assert tokenizer.count(overlap) <= rule.effective_overlap
        assert len(chunk.text) <= rule.max_tokens * MAX_CHARS_PER_TOKEN * 2
        last = chunk.char_end
    assert not text[last:].strip()
    return chunks


@pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS)
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(document=documents(), rule=RULES)
def test_every_document_is_cut_without_loss(
    tokenizer: Tokenizer, document: ParsedDocument, rule: ChunkRule
) -> None:
    chunks = checked(document, rule, tokenizer)
    by_number = {page.number: page for page in document.pages}
    tops = [b.start for b in document.blocks if b.kind == "heading" and b.level == 1]
    for chunk in chunks:
        if document.pages:
            first, last = by_number[chunk.page_first or 0], by_number[chunk.page_last or 0]
            assert first.start <= chunk.char_start < first.end
            assert last.start < chunk.char_end <= last.end
        else:
            assert chunk.page_first is chunk.page_last is None
        crossed = [top for top in tops if chunk.char_start < top < chunk.char_end]
        before = _without_headings(document, chunk.char_start, crossed[-1]) if crossed else ""
        is_preface = not any(top < chunk.char_start for top in tops) and len(before) <= 80
        assert not before or is_preface


def _without_headings(document: ParsedDocument, start: int, end: int) -> str:
    rest = list(document.text[start:end])
    for block in document.blocks:
        if block.kind == "heading" and block.level:
            for at in range(max(0, block.start - start), max(0, block.end - start)):
                rest[at : at + 1] = [" "] if at < len(rest) else []
    return "".join(rest).strip()


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(document=documents(), rule=RULES)
def test_the_default_model_s_tokens_hold_the_same(
    document: ParsedDocument, rule: ChunkRule
) -> None:
    checked(document, rule, E5Tokenizer())


@pytest.mark.parametrize("pair", [(200, 20), (50, 0), (50, 40), (500, 100), (50, 100)])
@pytest.mark.parametrize(
    "text",
    [
        "保修期为两年，人为损坏除外。" * 400,
        "水泵" * 3000,
        "The pump stops. " * 600,
        "x" * 9000,
        "👨‍👩‍👧" * 700,
        "e\u0301" * 2000,
        "水泵 pump 温度；" * 500,
    ],
    ids=["zh", "no-punctuation", "en", "one-word", "emoji", "accents", "mixed"],
)
def test_settings_and_scripts(text: str, pair: tuple[int, int]) -> None:
    for tokenizer in TOKENIZERS.values():
        cut(text, ChunkRule(*pair), tokenizer)


def test_sentences_stay_whole() -> None:
    sentences = [f"第{n}条规定水泵的温度不得高于允许的范围。" for n in range(200)]
    chunks = cut("".join(sentences), ChunkRule(100, 20))
    assert all(chunk.text.endswith("。") for chunk in chunks)
    assert all(chunk.text[chunk.own_start - chunk.char_start] == "第" for chunk in chunks)
    chunks = cut(" ".join(["The valve is closed before the pump runs."] * 90), ChunkRule(120, 0))
    assert all(chunk.text.startswith("The") and chunk.text.endswith("runs.") for chunk in chunks)


def test_overlap_begins_with_a_sentence_where_one_fits() -> None:
    chunks = cut("水泵坏了。保修期为两年。" * 100, ChunkRule(60, 24))
    assert all(c.own_start > c.char_start for c in chunks[1:])
    assert all(c.text.startswith(("水泵坏了", "保修期")) for c in chunks)


def test_overlap_comes_close_to_what_was_asked() -> None:
    tokenizer = E5Tokenizer()
    text = "水泵停机。阀门打开。" * 100
    chunks = cut(text, ChunkRule(200, 20), tokenizer)
    overlaps = [tokenizer.count(text[c.char_start : c.own_start]) for c in chunks[1:]]
    assert min(overlaps) >= 15
    assert max(overlaps) <= 20
    assert {c.char_start - c.own_start for c in cut("水泵在夜间停止运转" * 200)} == {0}


def test_chunks_are_filled() -> None:
    chunks = cut("保修期为两年，人为损坏除外。" * 400, ChunkRule(200, 20))
    assert all(chunk.token_count > 170 for chunk in chunks[:-1])


def test_a_sentence_that_is_too_long_is_cut_after_a_comma_or_between_words() -> None:
    chunks = cut("水泵的温度，" * 200, ChunkRule(50, 0))
    assert all(chunk.text.endswith("，") for chunk in chunks)
    words = " ".join(["valve", "pump", "kettle", "warden"] * 100)
    chunks = cut(words, ChunkRule(50, 10))
    assert {word for chunk in chunks for word in chunk.text.split()} == set(words.split())


@pytest.mark.parametrize("unit", ["👨‍👩‍👧", "e\u0301", "🇨🇳", "한"])
def test_characters_of_several_code_points_are_never_parted(unit: str) -> None:
    for chunk in cut(unit * 600, ChunkRule(50, 20), TOKENIZERS["byte-level"]):
        assert chunk.text == unit * (len(chunk.text) // len(unit))


def test_top_level_headings_are_not_crossed_and_lower_ones_are_merged() -> None:
    text = "# 安装\n\n打开阀门。\n\n## 水源\n\n接上水管。\n\n## 电源\n\n插上插头。\n"
    text += "\n# 保养\n\n每月清洗。\n"
    first, second = cut_markdown(text)
    assert first.text.startswith("# 安装") and first.text.endswith("插上插头。")
    assert first.heading_path == ("安装",)
    assert second.text == "# 保养\n\n每月清洗。"
    assert second.heading_path == ("保养",)
    assert second.char_start == second.own_start


def test_a_heading_without_text_joins_the_next_section() -> None:
    (chunk,) = cut_markdown("# Manual\n\n# Safety\n\nWear gloves.\n")
    assert chunk.text == "# Manual\n\n# Safety\n\nWear gloves."
    assert chunk.heading_path == ("Safety",)


@pytest.mark.parametrize(
    "line", ["# 水泵\n", "## 水泵\n停机。\n", "| a | b |\n", "###### x\n# y\n"]
)
def test_many_headings_and_rows_cost_no_more_than_text(line: str) -> None:
    text = line * 20_000
    document = ParsedDocument("md", text, "test/1", blocks=tuple(markdown_blocks(text)))
    tokenizer = TOKENIZERS["unigram"]
    started = time.thread_time()
    n_chunks = sum(1 for _ in chunk_document(document, ChunkRule(), tokenizer))
    assert n_chunks > 100
    assert time.thread_time() - started < 8


def test_a_short_preface_joins_the_first_section_and_a_long_one_stands_alone() -> None:
    (chunk,) = cut_markdown("HX-400 水培架\n\n# 概述\n\n整架共 96 个定植杯。\n")
    assert chunk.text.startswith("HX-400")
    assert chunk.heading_path == ("概述",)
    first, second = cut_markdown(f"{'水泵在夜间停机。' * 12}\n\n# 概述\n\n整架共 96 个定植杯。\n")
    assert (first.heading_path, second.heading_path) == ((), ("概述",))
    (chunk,) = cut_markdown("仅此一行。")
    assert chunk.text == "仅此一行。"


def test_a_heading_stays_with_its_text_and_names_it() -> None:
    body = "水泵的温度不得高于允许的范围。"
    text = f"# 手册\n\n## 温度\n\n{body * 4}\n\n## 压力\n\n{body * 4}\n\n### 上限\n\n{body * 8}\n"
    chunks = cut_markdown(text, ChunkRule(100, 0))
    assert not any(chunk.text.rsplit("\n", 1)[-1].startswith("#") for chunk in chunks)
    assert [chunk.heading_path for chunk in chunks][:2] == [("手册", "温度"), ("手册", "压力")]
    assert chunks[-1].heading_path == ("手册", "压力", "上限")


def test_a_table_that_goes_on_carries_its_first_row() -> None:
    rows = [f"| HX-{n} | 水泵 | {n} |" for n in range(60)]
    text = "\n".join(
        ["价目表。", "", "| 型号 | 名称 | 单价 |", "| --- | --- | --- |", *rows, "", "完。"]
    )
    first, *others = cut_markdown(text, ChunkRule(100, 10))
    assert first.context == ""
    assert len(others) > 5
    inside = [chunk for chunk in others if text[chunk.own_start] == "|"]
    assert {chunk.context for chunk in inside} == {"| 型号 | 名称 | 单价 |"}
    assert all("型号" not in chunk.text for chunk in inside)
    assert all(chunk.text.endswith("|") for chunk in inside[:-1])
    assert all(chunk.block_kinds == ("table",) for chunk in inside[:-1])


def test_a_first_row_that_is_too_long_is_not_carried() -> None:
    header = "| " + " | ".join(["温度保修水泵"] * 20) + " |"
    text = "\n".join([header, *[f"| {n} | 水泵 |" for n in range(90)]])
    assert {chunk.context for chunk in cut_markdown(text, ChunkRule(60, 0))} == {""}


def test_pages_are_those_of_the_span() -> None:
    sizes = [0, 300, 300, 0, 40]
    text, pages, position = "\f".join("水" * n for n in sizes), [], 0
    for number, size in enumerate(sizes, start=1):
        pages.append(Page(number, str(number), position, position + size))
        position += size + 1
    chunks = cut(text, ChunkRule(200, 20), pages=tuple(pages))
    assert [(c.page_first, c.page_last) for c in chunks] == [(2, 2), (2, 3), (3, 3), (3, 5)] or (
        chunks[0].page_first == 2 and chunks[-1].page_last == 5
    )
    assert all((c.page_first or 0) <= (c.page_last or 0) for c in chunks)


@pytest.mark.parametrize("text", ["", " \n\t\f\u3000\n", "\f\f\f"])
def test_blank_text_has_no_chunks(text: str) -> None:
    assert cut(text) == []


def test_blocks_in_any_order_do() -> None:
    text = "安装\n打开阀门。\n保养\n每月清洗。"
    blocks = (Block("heading", 9, 11, 1), Block("heading", 0, 2, 1))
    assert [c.heading_path for c in cut(text, blocks=blocks)] == [("安装",), ("保养",)]


@pytest.mark.parametrize("line", ["保修期为两年" * 300_000, "valve" * 1_000_000], ids=["zh", "en"])
def test_a_line_of_five_megabytes_is_cut_lazily(line: str) -> None:
    for tokenizer in (TOKENIZERS["word-level"], E5Tokenizer()):
        tokenizer.count("warm")
        tracemalloc.start()
        started = time.perf_counter()
        document = ParsedDocument("txt", line, "test/1")
        head = list(islice(chunk_document(document, ChunkRule(), tokenizer), 20))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert head[-1].char_end < 110_000
        assert peak < 30e6
        assert time.perf_counter() - started < 5


def test_it_cuts_a_megabyte_of_chinese_in_seconds() -> None:
    tokenizer = E5Tokenizer()
    text = "".join(f"第{n}条规定，水泵的温度不得高于允许的范围，否则停机。\n" for n in range(6000))
    tokenizer.count("warm")
    started = time.thread_time()
    n_chunks = sum(
        1 for _ in chunk_document(ParsedDocument("txt", text, "t"), ChunkRule(), tokenizer)
    )
    speed = len(text.encode()) / (time.thread_time() - started) / 1e6
    assert n_chunks > 600
    assert speed >= 0.25
