"""Splitter: a parsed document into chunks of whole sentences within a token limit, lazily.

The text is encoded window by window, so that memory does not grow with the document; whole
sentences are packed up to the bound, and every chunk is counted once more as a text of its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rag.core.documents import Chunk, ChunkRule, ParsedDocument
from rag.core.errors import ConfigurationError
from rag.core.plugins import register
from rag.core.ports import Tokenizer
from rag.core.splitters import ChunkSpan, SplitRequest, Splitter
from rag.stages.chunking.outline import Outline
from rag.stages.text.sentences import character_boundary, clause_ends, sentence_ends


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


WINDOW_CHARS = 50_000
# A part of a text may cost some tokens more than its share of the whole.
DRIFT = 2
# Some tokenizers see a whole line or a run of blanks as one token.
MAX_CHARS_PER_TOKEN = 24
# Past this share of the room a chunk ends before a heading rather than after its first lines.
HEADING_SHARE = 0.5
CONTEXT_SHARE = 0.5


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

    def cut(low: int, high: int) -> Iterator[ChunkSpan]:
        request = SplitRequest(document, low, high, rule, tokenizer, outline)
        return _checked(cutter.split(request), request)

    ordinal = 0
    for section in outline.sections():
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
        hint="Choose another by RAG_SPLITTER, or mend it.",
        at=at,
    )


@register("splitter")
class SentenceSplitter:
    """Packs whole sentences up to the bound; headings begin chunks, tables repeat their header."""

    name, label = "sentences", "Whole sentences"

    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options: Options) -> None: ...

    def split(self, request: SplitRequest) -> Iterator[ChunkSpan]:
        """Yield spans of at most the rule's tokens."""
        section = (request.start, request.end)
        text, outline = request.document.text, request.outline
        return _Packer(text, section, request.rule, request.tokenizer, outline).spans()


class _Window:
    """A stretch of text with the starts of its tokens and the ends of its sentences."""

    def __init__(self, text: str, start: int, end: int, packer: _Packer) -> None:
        self.start, self.end = start, end
        tokenizer, outline = packer.tokenizer, packer.outline
        self.tokens = [start + first for first, _ in tokenizer.offsets(text[start:end])]
        self.tokens.sort()
        # A row of a table is one sentence, whatever its cells hold.
        ends = (at for at in sentence_ends(text, start, end) if not outline.is_in_row(at))
        self.ends = [at for at in ends if self._may_end(at, packer)]

    def _may_end(self, at: int, packer: _Packer) -> bool:
        """Return whether a chunk may end there: code that fits is whole, all other in its lines."""
        code = packer.outline.code_at(at)
        if code is None:
            return True
        is_long = self.n_tokens(code.start, code.end) > packer.max - DRIFT
        return is_long and packer.outline.ends_line(at)

    def n_tokens(self, start: int, end: int) -> int:
        return bisect_left(self.tokens, end) - bisect_left(self.tokens, start)

    def after(self, start: int, n_tokens: int) -> int:
        """Return where ``n_tokens`` tokens from ``start`` on end, at most the window's end."""
        at = bisect_left(self.tokens, start) + n_tokens
        return self.tokens[at] if at < len(self.tokens) else self.end

    def before(self, end: int, n_tokens: int) -> int:
        """Return where the last ``n_tokens`` tokens before ``end`` begin."""
        at = bisect_left(self.tokens, end) - n_tokens
        return self.tokens[at] if at >= 0 else self.start


class _Packer:
    """Packs one section."""

    def __init__(
        self,
        text: str,
        section: tuple[int, int],
        rule: ChunkRule,
        tokenizer: Tokenizer,
        outline: Outline,
    ) -> None:
        self.text, self.tokenizer, self.outline = text, tokenizer, outline
        self.low, self.high = section
        self.max, self.overlap = rule.max_tokens, rule.effective_overlap
        self._context: tuple[int, str, int] = (-1, "", 0)

    def spans(self) -> Iterator[ChunkSpan]:
        own = self._skip(self.low, self.high)
        last_end = own
        window = self._window(own)
        while own < self.high:
            if window.end < self.high and window.end - own < self.max * MAX_CHARS_PER_TOKEN:
                start = max(self.low, last_end - self.overlap * MAX_CHARS_PER_TOKEN)
                window = self._window(character_boundary(self.text, start, self.low))
            span = self._next(window, own)
            yield span
            last_end = span.end
            own = self._skip(span.end, self.high)

    def _window(self, start: int) -> _Window:
        size = WINDOW_CHARS + 2 * self.max * MAX_CHARS_PER_TOKEN
        end = min(self.high, start + size)
        if end < self.high:
            end = character_boundary(self.text, end, start)
        return _Window(self.text, start, end, self)

    def _next(self, window: _Window, own: int) -> ChunkSpan:
        """Return the chunk that begins with ``own``, shrunk until it holds the bound."""
        context, context_cost = self._table_header(own)
        start = self._reach(window, own)
        if context and context in self.text[start:own]:
            context, context_cost = "", 0
        room = self.max - context_cost - window.n_tokens(start, own) - DRIFT
        end = self._stop(window, own, max(1, room))
        while True:
            n_tokens = self.tokenizer.count(self.text[start:end])
            whole = n_tokens
            if context:
                whole = self.tokenizer.count(f"{context}\n{self.text[start:end]}")
            excess = whole - self.max
            if excess <= 0:
                return ChunkSpan(start, own, end, n_tokens, context)
            if start < own:
                start = self._later(window, start, own, excess)
            elif end - own <= 1:
                # One character costs more than a chunk may: there is nothing left to cut.
                return ChunkSpan(start, own, end, n_tokens, "")
            elif window.n_tokens(own, end) > excess:
                room = window.n_tokens(own, end) - excess
                end = min(self._stop(window, own, room), end - 1)
            else:
                end = character_boundary(self.text, own + (end - own) // 2, own)
            end = self._trim(own, end)

    def _stop(self, window: _Window, own: int, room: int) -> int:
        """Return where the chunk ends that begins with ``own`` and has room for some tokens."""
        limit = min(window.after(own, room), own + room * MAX_CHARS_PER_TOKEN)
        limit = max(limit, own + 1)
        if limit >= window.end:
            return self._trim(own, window.end)
        half = min(window.after(own, int(room * HEADING_SHARE)), limit)
        fitting = bisect_right(window.ends, limit) - 1
        stop = window.ends[fitting] if fitting >= 0 else own
        for heading in self.outline.heading_starts(own, limit + 1):
            # What fits no more than a heading's first lines is better off with the rest of them.
            is_bare = not self._has_body(heading, stop) and self._has_body(own, heading)
            if heading >= half or is_bare:
                return self._trim(own, heading)
        if stop > own:
            return self._trim(own, self._part_end(window, half, stop))
        return self._trim(own, self._inside(own, limit))

    def _part_end(self, window: _Window, low: int, stop: int) -> int:
        """Return where to cut code that is too long: before a function, else after a line."""
        if self.outline.code_at(stop) is None:
            return stop
        for at in range(bisect_left(window.ends, stop), -1, -1):
            end = window.ends[at] if at < len(window.ends) else low
            if end <= low:
                break
            if end <= stop and self.outline.begins_part(end):
                return end
        return stop

    def _has_body(self, start: int, stop: int) -> bool:
        """Return whether more than headings stands in ``[start, stop)``."""
        while start < stop:
            end = self.outline.heading_end(start)
            if end is None:
                return True
            start = self._skip(end, stop)
        return False

    def _inside(self, own: int, limit: int) -> int:
        """Return where to cut a sentence that is too long: after a clause, a word, a character."""
        middle = own + (limit - own) // 2
        clauses = [end for end in clause_ends(self.text, own, limit + 1) if middle < end <= limit]
        return clauses[-1] if clauses else character_boundary(self.text, limit, own)

    def _reach(self, window: _Window, own: int) -> int:
        """Return where the overlap begins: a sentence or word within the tokens asked for."""
        if self.overlap == 0 or own <= self.low:
            return own
        first = max(
            self.low, window.before(own, self.overlap), own - self.overlap * MAX_CHARS_PER_TOKEN
        )
        start = self._snap(window, first, own)
        while start < own:
            excess = self.tokenizer.count(self.text[start:own].rstrip()) - self.overlap
            if excess <= 0:
                break
            start = self._later(window, start, own, excess)
        return start

    def _out_of_table(self, first: int, own: int) -> int:
        """Return where the overlap may begin: with a row of the same table, or behind another."""
        table = self.outline.table_at(own)
        if table is not None and table.start < own:
            if first <= table.start or self.text[first - 1] in "\n\f":
                return max(first, table.start)
            row = self.text.find("\n", first, own)
            return own if row < 0 else row + 1
        last = self.outline.table_at(self._trim(first, own) - 1) if first < own else None
        return first if last is None else max(first, min(last.end, own))

    def _out_of_code(self, first: int, own: int) -> int:
        """Return where the overlap may begin: with a line of the same code, or behind other."""
        code = self.outline.code_at(first)
        if code is None:
            return first
        if code.end <= own:
            return code.end
        line = self.text.find("\n", first, own)
        return own if line < 0 else line + 1

    def _snap(self, window: _Window, first: int, own: int) -> int:
        """Return the first good start in ``[first, own]``: of a sentence, else of a word."""
        first = self._out_of_code(self._out_of_table(first, own), own)
        at = bisect_left(window.ends, first)
        while at < len(window.ends) and window.ends[at] < own:
            start = self._skip(window.ends[at], own)
            # A heading without its text explains nothing, and one begins ``own`` anyway.
            if start < own:
                return start
            at += 1
        if first in (self.low, window.start) or self.text[first - 1].isspace():
            return self._skip(first, own)
        tokens = window.tokens
        for at in range(bisect_left(tokens, first), bisect_left(tokens, own)):
            if character_boundary(self.text, tokens[at], tokens[at] - 99) == tokens[at]:
                return self._skip(tokens[at], own)
        return own

    def _later(self, window: _Window, start: int, own: int, n_tokens: int) -> int:
        """Return a start of the overlap that is later by at least some tokens."""
        first = max(window.after(start, n_tokens), start + 1)
        return own if first >= own else self._snap(window, first, own)

    def _table_header(self, own: int) -> tuple[str, int]:
        """Return the first row of the table that ``own`` goes on with, and what it costs."""
        table = self.outline.table_at(own)
        if table is None:
            return "", 0
        start, end = self.outline.header(table)
        if own < end or end - start > self.max * MAX_CHARS_PER_TOKEN:
            return "", 0
        if self._context[0] != start:
            header = self.text[start:end].strip()
            self._context = (start, header, self.tokenizer.count(header) + 1)
        _, header, cost = self._context
        return (header, cost) if cost <= self.max * CONTEXT_SHARE else ("", 0)

    def _skip(self, start: int, end: int) -> int:
        while start < end and self.text[start].isspace():
            start += 1
        return start

    def _trim(self, own: int, end: int) -> int:
        while end > own + 1 and self.text[end - 1].isspace():
            end -= 1
        return end
