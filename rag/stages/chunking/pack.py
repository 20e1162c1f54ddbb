"""Packer: a stretch of a document into spans of whole sentences within a token limit, lazily.

The text is encoded window by window, so that memory does not grow with the document; whole
sentences are packed up to the bound, and every span is counted once more as a text of its own.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import merge
from itertools import chain
from operator import itemgetter

from rag.core.plugins import register
from rag.core.splitters import ChunkSpan, SplitRequest
from rag.stages.chunking.outline import Outline
from rag.stages.text.sentences import character_boundary, clause_ends, sentence_ends

WINDOW_CHARS = 50_000
# A part of a text may cost some tokens more than its share of the whole.
DRIFT = 2
# Some tokenizers see a whole line or a run of blanks as one token.
MAX_CHARS_PER_TOKEN = 24
# Past this share of the room a chunk ends before a heading rather than after its first lines.
HEADING_SHARE = 0.5
CONTEXT_SHARE = 0.5


class _Window:
    """A stretch of text with the starts of its tokens and the ends of its sentences."""

    def __init__(self, text: str, start: int, end: int, packer: Packer) -> None:
        self.start, self.end = start, end
        tokenizer, outline = packer.tokenizer, packer.outline
        self.tokens = [start + first for first, _ in tokenizer.offsets(text[start:end])]
        self.tokens.sort()
        # A row of a table is one sentence, whatever its cells hold.
        ends = (at for at in sentence_ends(text, start, end) if not outline.is_in_row(at))
        self.all_ends = [at for at in ends if self._may_end(at, packer)]
        # Ends that leave no list behind its lead, and no table behind its caption.
        self.ends = [at for at in self.all_ends if not outline.is_lead_end(at)]

    def _may_end(self, at: int, packer: Packer) -> bool:
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


class Packer:
    """Packs one stretch.

    ``title`` is carried by the spans that go on with what begins the stretch.
    """

    def __init__(
        self, request: SplitRequest, max_tokens: int, overlap_tokens: int, title: str = ""
    ) -> None:
        self.text, self.tokenizer = request.document.text, request.tokenizer
        self.outline: Outline = request.outline
        self.low, self.high = request.start, request.end
        self.max, self.overlap = max_tokens, overlap_tokens
        self._title = title
        self._costs: tuple[str, int] = ("", 0)

    def spans(self) -> Iterator[ChunkSpan]:
        """Yield spans of at most the tokens asked for, in order."""
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
        context, context_cost = self._carried(own)
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
        stop = _last_before(window.ends, limit, own)
        if stop <= own:
            stop = _last_before(window.all_ends, limit, own)
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
        """Return where the overlap begins: a sentence within the tokens asked for, or none."""
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
        """Return the first start of a sentence in ``[first, own]``."""
        first = self._out_of_code(self._out_of_table(first, own), own)
        if first == self.low:
            return self._skip(first, own)
        at = bisect_left(window.ends, first)
        # A heading without its text explains nothing, and one begins ``own`` anyway.
        end = window.ends[at] if at < len(window.ends) else own
        return self._skip(end, own) if end < own else own

    def _later(self, window: _Window, start: int, own: int, n_tokens: int) -> int:
        """Return a start of the overlap that is later by at least some tokens."""
        first = max(window.after(start, n_tokens), start + 1)
        return own if first >= own else self._snap(window, first, own)

    def _carried(self, own: int) -> tuple[str, int]:
        """Return what the span at ``own`` needs from before it, and what that costs.

        That is the title of the stretch, and the header of the table or the lead of the list that
        it goes on with.
        """
        parts = [self._title] if own > self._skip(self.low, self.high) else []
        start, end = self.outline.carried_at(own, self.low)
        if end - start <= self.max * MAX_CHARS_PER_TOKEN:
            parts.append(self.text[start:end].strip())
        for context in ("\n".join(filter(None, parts)), parts[-1] if parts else ""):
            if self._costs[0] != context:
                self._costs = (context, self.tokenizer.count(context) + 1)
            if context and self._costs[1] <= self.max * CONTEXT_SHARE:
                return self._costs
        return "", 0

    def _skip(self, start: int, end: int) -> int:
        while start < end and self.text[start].isspace():
            start += 1
        return start

    def _trim(self, own: int, end: int) -> int:
        while end > own + 1 and self.text[end - 1].isspace():
            end -= 1
        return end


def _last_before(ends: list[int], limit: int, own: int) -> int:
    fitting = bisect_right(ends, limit) - 1
    return ends[fitting] if fitting >= 0 else own


def pack_sentences(request: SplitRequest) -> Iterator[ChunkSpan]:
    """Yield spans of at most the rule's tokens, as full as whole sentences make them."""
    return Packer(request, request.rule.max_tokens, request.rule.effective_overlap).spans()


def pack_parts(request: SplitRequest, parts: Iterable[tuple[int, str]]) -> Iterator[ChunkSpan]:
    """Yield spans that never reach from one part into the next.

    ``parts`` are (start, title) in order; what lies before the first is a part without a title.
    The second span of a part and those behind it carry its title.
    """
    rule = request.rule
    start, title = request.start, ""
    for end, following in chain(parts, [(request.end, "")]):
        if start < end <= request.end:
            part = replace(request, start=start, end=end)
            yield from Packer(part, rule.max_tokens, rule.effective_overlap, title).spans()
            start = end
        title = following


MAX_TITLE = 100
_LINE_START = r"(?:^|(?<=[\n\f]))"
# A line of a table of contents ends with its page.
_CONTENTS_LINE = re.compile(r"[^\n\f]*(?:[.…·‥]{3,}|\t|\s{3,})\s*\d{1,4}\s*(?=[\n\f]|$)")

# Start, title, and whether text stands in the line itself.
Mark = tuple[int, str, bool]


def line_pattern(start: str) -> re.Pattern[str]:
    """Return what matches the beginning of a line that begins so, behind Markdown's marks."""
    return re.compile(rf"{_LINE_START}[ \t\u3000]*(?:#{{1,6}}[ \t]+)?\**(?P<label>{start})", re.M)


def heading_marks(request: SplitRequest, max_level: int) -> Iterator[Mark]:
    """Yield the headings of a stretch, down to a level."""
    outline = request.outline
    for heading in outline.headings(request.start, request.end):
        if heading.level <= max_level:
            yield heading.start, outline.title(heading), False


def line_marks(
    request: SplitRequest, pattern: re.Pattern[str], *, is_label: bool = False
) -> Iterator[Mark]:
    """Yield the lines that a pattern begins.

    The title is the line where it is short; where ``is_label`` it is what the pattern took, and
    text stands behind that.
    Lines of a table of contents and of code are none.
    """
    text = request.document.text
    for match in pattern.finditer(text, request.start, request.end):
        start = match.start()
        while start < match.start("label") and text[start].isspace():
            start += 1
        if _CONTENTS_LINE.match(text, start) or request.outline.code_at(start + 1):
            continue
        line = text[match.start("label") : start + 2 * MAX_TITLE].split("\n", 1)[0].strip("* \t\r")
        label = match["label"].strip()
        yield start, label if is_label or len(line) > MAX_TITLE else line, is_label


def parts_with_body(request: SplitRequest, *marks: Iterable[Mark]) -> Iterator[tuple[int, str]]:
    """Yield (start, title) of the marks in order.

    One that another follows at once takes it in, and is called so. Of two at one place the first
    one's counts.
    """
    waiting: tuple[int, str] | None = None
    last, has_text = -1, False
    for start, title, is_text in merge(*marks, key=itemgetter(0)):
        if start == last:
            continue
        if waiting is not None and (has_text or _has_body(request, last, start)):
            yield waiting
            waiting = None
        waiting = (start, title) if waiting is None else (waiting[0], title)
        last, has_text = start, is_text
    if waiting is not None:
        yield waiting


def _has_body(request: SplitRequest, start: int, end: int) -> bool:
    """Return whether more than the line that begins at ``start`` stands before ``end``."""
    text = request.document.text
    behind = text.find("\n", start, end)
    return end - start > MAX_TITLE or (behind >= 0 and bool(text[behind:end].strip()))


@register("splitter")
class SentenceSplitter:
    """Splitter for any text."""

    name, label = "sentences", "General text"
    description = (
        "Whole sentences up to the chunk size. Sections, lists with their lead, tables "
        "and code stay together where they fit."
    )

    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options: Options) -> None: ...

    def split(self, request: SplitRequest) -> Iterator[ChunkSpan]:
        """Yield spans of at most the rule's tokens."""
        return pack_sentences(request)
