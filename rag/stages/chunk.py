"""Cuts a document into chunks. In: a parsed document, a rule, a tokenizer. Out: chunks, lazily.

The text is encoded window by window, so that memory does not grow with the document; whole
sentences are packed up to the bound, and every chunk is counted once more as a text of its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from rag.core.documents import Block, Chunk, ChunkRule, ParsedDocument
from rag.core.ports import Tokenizer
from rag.stages.sentences import sentence_ends

WINDOW = 200_000
# A part of a text may cost some tokens more than its share of the whole.
DRIFT = 3
_COMMAS = "，、,;；:："


def chunk_document(
    document: ParsedDocument, rule: ChunkRule, tokenizer: Tokenizer
) -> Iterator[Chunk]:
    """Yield chunks of at most ``rule.max_tokens`` tokens, in order.

    Every character but white space lies in the own part ``[own_start, char_end)`` of exactly one
    chunk; top-level headings are never crossed; sentences stay whole where they fit. A chunk that
    goes on with a table carries the table's first row in ``context``.
    """
    outline = _Outline(document)
    ordinal = 0
    for start, end in outline.sections():
        for own_start, own_end, reach in _pack_section(
            document.text, (start, end), rule, tokenizer, outline
        ):
            chunk = _finish(document.text, (reach, own_start, own_end), rule, tokenizer, outline)
            if chunk is not None:
                yield outline.place(chunk, ordinal)
                ordinal += 1


def _pack_section(
    text: str, section: tuple[int, int], rule: ChunkRule, tokenizer: Tokenizer, outline: _Outline
) -> Iterator[tuple[int, int, int]]:
    """Yield (own start, own end, start of the overlap) for each chunk of a section."""
    start, end = section
    own, reach = start, start
    while own < end:
        window = _Window(text, reach, min(end, reach + WINDOW), tokenizer)
        while own < end:
            stop = window.pack(own, rule, outline)
            if stop >= window.end < end and own > reach:
                break  # The window is used up; the next one begins where this chunk's overlap does.
            yield own, stop, reach
            own = stop
            reach = window.overlap_start(own, start, rule)


class _Window:
    """A stretch of text with its tokens and sentences."""

    def __init__(self, text: str, start: int, end: int, tokenizer: Tokenizer) -> None:
        self.text, self.end = text, end
        offsets = tokenizer.offsets(text[start:end])
        # A token that starts inside a character is no place to cut.
        self.tokens = sorted({start + a for a, b in offsets if b > a})
        self.counts = [start + a for a, _ in offsets]
        self.ends = list(sentence_ends(text, start, end))

    def pack(self, own: int, rule: ChunkRule, outline: _Outline) -> int:
        """Return where the chunk that starts at ``own`` ends."""
        budget = max(8, rule.max_tokens - rule.effective_overlap - DRIFT)
        first = bisect_left(self.counts, own)
        if first + budget >= len(self.counts):
            limit = self.end
        else:
            limit = max(own + 1, self.counts[first + budget])
        at = bisect_right(self.ends, limit) - 1
        while at >= 0 and self.ends[at] > own:
            stop = self.ends[at]
            # A heading belongs to what follows it.
            if not outline.ends_with_heading(own, stop) or stop == self.end:
                return stop
            at -= 1
        return self._cut_inside(own, limit)

    def _cut_inside(self, own: int, limit: int) -> int:
        """Return where to cut a sentence that alone is too long: a comma, else a token."""
        for position in range(limit, own + (limit - own) // 2, -1):
            if self.text[position - 1] in _COMMAS:
                return position
        at = bisect_right(self.tokens, limit) - 1
        if at >= 0 and self.tokens[at] > own:
            return self.tokens[at]
        return limit

    def overlap_start(self, own: int, low: int, rule: ChunkRule) -> int:
        """Return where the overlap before ``own`` begins: a sentence's start, else a token's."""
        wanted = rule.effective_overlap - DRIFT - 1
        if wanted <= 0:
            return own
        at = max(0, bisect_left(self.counts, own) - wanted)
        furthest = max(low, self.counts[at] if at < len(self.counts) else own)
        sentence = bisect_left(self.ends, furthest)
        if sentence < len(self.ends) and self.ends[sentence] < own:
            return self.ends[sentence]
        return min(furthest, own)


def _finish(
    text: str, spans: tuple[int, int, int], rule: ChunkRule, tokenizer: Tokenizer, outline: _Outline
) -> Chunk | None:
    """Return the chunk without white space around it and within the bound, counted anew."""
    reach, own, end = spans
    own, end = _trim(text, own, end)
    if own >= end:
        return None
    reach = min(own, _trim(text, reach, own)[0])
    count = tokenizer.count(text[reach:end])
    while count > rule.max_tokens and reach < own:
        # Too long with its overlap: give up as many tokens of it as there are too many.
        inner = tokenizer.offsets(text[reach:own])
        drop = min(len(inner), count - rule.max_tokens)
        reach = own if drop >= len(inner) else _trim(text, reach + max(1, inner[drop][0]), own)[0]
        reach = min(reach, own)
        count = tokenizer.count(text[reach:end])
    return Chunk(
        ordinal=0, char_start=reach, char_end=end, own_start=own, text=text[reach:end],
        token_count=count, context=outline.table_header(own, rule.max_tokens // 4, tokenizer),
    )  # fmt: skip


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


@dataclass(frozen=True, slots=True)
class _Heading:
    start: int
    end: int
    level: int
    title: str


class _Outline:
    """Headings, tables and pages of a document, found by position."""

    def __init__(self, document: ParsedDocument) -> None:
        self.document = document
        text = document.text
        self.headings = [
            _Heading(b.start, b.end, b.level, " ".join(text[b.start : b.end].lstrip("# ").split()))
            for b in document.blocks
            if b.kind == "heading" and b.level > 0
        ]
        self.heading_starts = [heading.start for heading in self.headings]
        self.blocks = document.blocks
        self.block_starts = [block.start for block in self.blocks]
        self.page_starts = [page.start for page in document.pages]

    def sections(self) -> Iterator[tuple[int, int]]:
        """Yield the spans between top-level headings."""
        cuts = [h.start for h in self.headings if h.level == 1 and h.start > 0]
        for start, end in zip([0, *cuts], [*cuts, len(self.document.text)], strict=True):
            if start < end:
                yield start, end

    def ends_with_heading(self, own: int, stop: int) -> bool:
        """Return whether ``[own, stop)`` closes with a heading and holds more than that."""
        at = bisect_right(self.heading_starts, stop - 1) - 1
        if at < 0:
            return False
        heading = self.headings[at]
        return heading.start > own and not self.document.text[heading.end : stop].strip()

    def table_header(self, own: int, max_tokens: int, tokenizer: Tokenizer) -> str:
        """Return the first row of the table that ``own`` lies in, after that row."""
        block = self._block_at(own)
        if block is None or block.kind != "table":
            return ""
        header = self.document.text[block.start : block.end].split("\n", 1)[0].strip()
        if own < block.start + len(header) or tokenizer.count(header) > max_tokens:
            return ""
        return header

    def place(self, chunk: Chunk, ordinal: int) -> Chunk:
        """Return the chunk with its position, pages, headings and kinds of blocks."""
        return Chunk(
            ordinal=ordinal, char_start=chunk.char_start, char_end=chunk.char_end,
            own_start=chunk.own_start, text=chunk.text, token_count=chunk.token_count,
            page_first=self._page_at(chunk.char_start), page_last=self._page_at(chunk.char_end - 1),
            heading_path=self._path_at(chunk.own_start), context=chunk.context,
            block_kinds=self._kinds(chunk.char_start, chunk.char_end),
        )  # fmt: skip

    def _block_at(self, position: int) -> Block | None:
        at = bisect_right(self.block_starts, position) - 1
        return self.blocks[at] if at >= 0 and position < self.blocks[at].end else None

    def _page_at(self, position: int) -> int | None:
        at = bisect_right(self.page_starts, position) - 1
        return self.document.pages[max(0, at)].number if self.page_starts else None

    def _path_at(self, position: int) -> tuple[str, ...]:
        path: dict[int, str] = {}
        top = 7
        for at in range(bisect_right(self.heading_starts, position) - 1, -1, -1):
            heading = self.headings[at]
            if heading.level < top:
                top = heading.level
                path[top] = heading.title
            if top == 1:
                break
        return tuple(path[level] for level in sorted(path))

    def _kinds(self, start: int, end: int) -> tuple[str, ...]:
        at = max(0, bisect_right(self.block_starts, start) - 1)
        kinds: dict[str, None] = {}
        while at < len(self.blocks) and self.blocks[at].start < end:
            if self.blocks[at].end > start:
                kinds[self.blocks[at].kind] = None
            at += 1
        return tuple(kinds)
