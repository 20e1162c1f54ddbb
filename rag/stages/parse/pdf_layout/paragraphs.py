"""PDF paragraphs: lines joined that the width of their column alone has broken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rag.stages.parse.pdf_layout.lines import Piece, is_wide, join_words

# A narrower line may be a list's, a table's or a title's own.
MIN_COLUMNS = 30
_ENDED = re.compile(r"[。！？；：.!?:;][”’」』）\"')\]]*$")
_STARTS = re.compile(r"\s*(?:[-•·*●■–▪◦]|[(（]?\d{1,3}[.)）、]|\d+(?:\.\d+)+\s|第.{1,5}[章节条])")
# A short line that begins with a number is a title or an item.
_NUMBERED = re.compile(r"\s*\d{1,2}(?:\.\d{1,2})*\.?\s+\S")
_ALIKE, _NEXT = 1.12, 1.9


@dataclass(slots=True)
class Line:
    """One line of a column; ``room`` is how wide its first word is."""

    text: str
    left: float
    top: float
    right: float
    bottom: float
    room: float

    @property
    def size(self) -> float:
        """Return the height of its letters."""
        return self.bottom - self.top


def to_lines(pieces: Sequence[Piece]) -> list[Line]:
    """Return lines: pieces beside each other that follow each other."""
    groups: list[list[Piece]] = []
    for piece in pieces:
        last = groups[-1][-1] if groups else None
        is_beside = (
            last is not None
            and piece.words[0].turn == last.words[0].turn
            and abs(piece.middle - last.middle) <= 0.5 * min(piece.size, last.size)
            and piece.left > last.right - last.size
        )
        if is_beside:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return [_line(group) for group in groups]


def _line(group: Sequence[Piece]) -> Line:
    words = [word for piece in group for word in piece.words]
    first = words[0]
    room = first.right - first.left
    if is_wide(first.text[0]):
        room = min(room, 2.2 * first.size)
    text = join_words(words) if len(group) == 1 else " ".join(piece.text for piece in group)
    main = max(group, key=lambda piece: piece.right - piece.left)
    return Line(text, group[0].left, main.top, group[-1].right, main.bottom, room)


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of a page, with its first and its last line."""

    text: str
    first: Line
    last: Line

    @property
    def top(self) -> float:
        """Return how far down it begins."""
        return self.first.top

    @property
    def bottom(self) -> float:
        """Return how far down it ends."""
        return self.last.bottom

    def joined(self, after: Paragraph) -> Paragraph:
        """Return this paragraph going on with another."""
        text = self.text + joint(self.text, after.text) + after.text.lstrip()
        return Paragraph(text, self.first, after.last)


def join_paragraphs(lines: Sequence[Line]) -> list[Paragraph]:
    """Return the paragraphs of some lines."""
    out: list[Paragraph] = []
    for at, line in enumerate(lines):
        paragraph = Paragraph(line.text, line, line)
        if out and _is_broken(lines, at - 1):
            out[-1] = out[-1].joined(paragraph)
        else:
            out.append(paragraph)
    return out


def goes_on(last: Paragraph, first: Paragraph) -> bool:
    """Return whether a paragraph goes on in the first one of the next column."""
    before, after = last.text.rstrip()[-1:], first.text.lstrip()[:1]
    if _ENDED.search(last.text) or _STARTS.match(first.text) or _columns(last.text) < MIN_COLUMNS:
        return False
    sizes = sorted((last.last.size, first.first.size))
    is_beside = first.first.left > last.last.left and first.first.top < last.last.bottom
    is_inside = after.islower() or (is_wide(before) and is_wide(after) and after.isalnum())
    return is_beside and is_inside and sizes[1] <= _ALIKE * sizes[0]


def joint(before: str, after: str) -> str:
    """Return what stands between two lines of a paragraph."""
    last, first = before[-1:], after.lstrip()[:1]
    is_closed = (
        last == "\x02"
        or (is_wide(last) and is_wide(first))
        or (last in "-‐" and first.islower() and before[-2:-1].isalpha())
    )
    return "" if is_closed else " "


def _is_broken(lines: Sequence[Line], at: int) -> bool:
    """Return whether a line goes on in the next one."""
    line, following = lines[at], lines[at + 1]
    if line.text.endswith("\x02"):
        return True
    if _ENDED.search(line.text) or _STARTS.match(following.text):
        return False
    sizes = sorted((line.size, following.size))
    step = following.top - line.top
    if sizes[1] > _ALIKE * sizes[0] or not 0 < step < _NEXT * sizes[1]:
        return False
    near = [
        one
        for one in lines[max(0, at - 4) : at + 6]
        if one.left < line.right and line.left < one.right
    ]
    edge, begin = max(one.right for one in near), min(one.left for one in near)
    if _columns(line.text) < MIN_COLUMNS or line.right - line.left < 0.5 * (edge - begin):
        return False
    is_full = edge - line.right < following.room + 0.35 * line.size
    goes_on = following.text[:1].islower() and line.right - line.left > 0.6 * (edge - begin)
    if not is_full and not goes_on:
        return False
    is_short = following.right < edge - 2 * line.size
    if is_short and _NUMBERED.match(following.text) and not _ENDED.search(following.text):
        return False
    is_indented = following.left > line.left + 0.8 * line.size
    return (
        not is_indented
        or bool(_STARTS.match(line.text))
        or following.left < begin + 0.5 * line.size
    )


def _columns(text: str) -> int:
    """Return the width in columns; Han characters take two."""
    return sum(2 if is_wide(character) else 1 for character in text)
