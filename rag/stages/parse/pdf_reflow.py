"""PDF reflow: lines of a page joined into paragraphs."""

from __future__ import annotations

import re

# A narrower line may be a list's, a table's or a title's own.
MIN_WIDTH = 30
_ENDED = re.compile(r"[。！？；：.!?:;][”’」』）\"')\]]*$")
_STARTS = re.compile(r"\s*(?:[-•·*●■–▪◦]|[(（]?\d{1,3}[.)）、]|\d+(?:\.\d+)+\s|第.{1,5}[章节条])")
# A short line that begins with a number is a title or an item.
_NUMBERED = re.compile(r"\s*\d{1,2}(?:\.\d{1,2})*\.?\s+\S")


def reflow_lines(text: str) -> str:
    """Return the text with lines joined that the width of the page alone has broken."""
    lines = [line.rstrip() for line in text.split("\n")]
    widths = sorted(map(_width, filter(None, lines)))
    if len(widths) < 3:
        return "\n".join(lines)
    full = max(MIN_WIDTH, 0.72 * widths[int(0.9 * (len(widths) - 1))])
    out = [lines[0]]
    last = lines[0]
    for line in lines[1:]:
        is_broken = last and line and _width(last) >= full and not _ENDED.search(last)
        is_title = _NUMBERED.match(line) and _width(line) < full
        if is_broken and not is_title and not _STARTS.match(line):
            is_wide = ord(last[-1]) > 0x2E7F and ord(line.lstrip()[0]) > 0x2E7F
            out[-1] += ("" if is_wide else " ") + line.lstrip()
        else:
            out.append(line)
        last = line
    return "\n".join(out)


def _width(line: str) -> int:
    """Return the width in columns; Han characters take two."""
    return sum(2 if ord(character) > 0x2E7F else 1 for character in line)
