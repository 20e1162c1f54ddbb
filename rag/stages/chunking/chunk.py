"""Chunker: a parsed document into chunks, by a splitter and around what people edited, lazily."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from rag.core.documents import Chunk, ChunkRule, ParsedDocument
from rag.core.errors import ConfigurationError
from rag.core.ports import Tokenizer
from rag.core.splitters import ChunkSpan, SplitRequest, Splitter
from rag.stages.chunking.outline import Outline
from rag.stages.chunking.pack import SentenceSplitter


def chunk_around_edits(
    section: tuple[int, int],
    holes: Sequence[tuple[int, int]],
    cut: Callable[[int, int], Iterator[ChunkSpan]],
) -> Iterator[ChunkSpan | None]:
    """Yield the spans of a section whose own parts lie in no hole, and None for each hole.

    Where the cuts fall on a hole's borders anyway, all others stay where they would be without it:
    a chunk that somebody edits moves none of its neighbours.
    ``holes`` are in order and do not overlap; None comes in the section where a hole begins.
    ``cut`` cuts a stretch from its beginning.
    """
    low, high = section
    waiting = deque(hole for hole in holes if hole[0] < high and hole[1] > low)
    spans = cut(low, high)
    while (span := next(spans, None)) is not None:
        while waiting and waiting[0][1] <= span.own:
            yield from _told(waiting.popleft(), low)
        if not waiting or span.end <= waiting[0][0]:
            yield span
            continue
        hole = waiting[0]
        if hole[0] <= span.own and span.end <= hole[1]:
            continue
        if span.own < hole[0]:
            yield from cut(span.own, hole[0])
        yield from _told(waiting.popleft(), low)
        spans = cut(min(hole[1], high), high)
    for hole in waiting:
        yield from _told(hole, low)


def _told(hole: tuple[int, int], low: int) -> Iterator[None]:
    if hole[0] >= low:
        yield None


def chunk_document(
    document: ParsedDocument,
    rule: ChunkRule,
    tokenizer: Tokenizer,
    holes: Sequence[tuple[int, int]] = (),
    splitter: Splitter | None = None,
) -> Iterator[Chunk]:
    """Yield chunks of at most ``rule.max_tokens`` tokens, in order.

    Every character but white space lies in the own part ``[own_start, char_end)`` of exactly one
    chunk; top-level headings are never crossed; sentences stay whole where they fit. A chunk that
    goes on with a table carries the table's first row in ``context``, counted within the bound.
    ``holes`` are spans, in order, that other chunks hold: nothing of them is repeated, and each
    takes one ordinal. ``splitter`` None packs whole sentences; one that loses or repeats text is a
    ConfigurationError.
    """
    outline = Outline(document)
    cutter = splitter or SentenceSplitter(SentenceSplitter.Options())
    is_whole = getattr(cutter, "crosses_headings", False)
    sections = [(0, len(document.text))] if is_whole else outline.sections()

    def cut(low: int, high: int) -> Iterator[ChunkSpan]:
        request = SplitRequest(document, low, high, rule, tokenizer, outline)
        return _checked(cutter.split(request), request)

    ordinal = 0
    for section in sections:
        for span in chunk_around_edits(section, holes, cut):
            if span is None:
                ordinal += 1
                continue
            before = bisect_left(holes, (span.own, 0)) - 1
            if before >= 0 and holes[before][1] > span.start:
                span = replace(span, start=span.own, n_tokens=None)
            text = document.text[span.start : span.end]
            yield Chunk(
                ordinal=ordinal,
                char_start=span.start,
                char_end=span.end,
                own_start=span.own,
                text=text,
                token_count=tokenizer.count(text) if span.n_tokens is None else span.n_tokens,
                page_first=outline.page_at(span.start),
                page_last=outline.page_at(span.end - 1),
                heading_path=outline.path(span.own, span.end),
                block_kinds=outline.kinds(span.start, span.end),
                context=span.context,
                parent_start=span.parent_start,
            )
            ordinal += 1


def _checked(spans: Iterator[ChunkSpan], request: SplitRequest) -> Iterator[ChunkSpan]:
    """Yield the spans; raise ConfigurationError where they lose, repeat or leave the text."""
    done, text = request.start, request.document.text
    for span in spans:
        is_within = request.start <= span.start <= span.own < span.end <= request.end
        if not is_within or span.own < done or text[done : span.own].strip():
            raise _bad_split(done)
        done = span.end
        yield span
    if text[done : request.end].strip():
        raise _bad_split(done)


def _bad_split(at: int) -> ConfigurationError:
    return ConfigurationError(
        "The splitter loses or repeats text at character {at}.",
        hint="Choose another for the store or by RAG_SPLITTER, or mend it.",
        at=at,
    )
