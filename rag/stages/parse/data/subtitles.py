"""Parser for subtitles: SubRip and WebVTT, cues joined to paragraphs with their times."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rag.core.documents import ParsedDocument
from rag.stages.detect.decode import decode_text
from rag.stages.parse.canonical import CanonicalText
from rag.stages.parse.data.tree import read_as_text

_TIME = r"(?:(\d{1,3}):)?(\d{1,2}):(\d{1,2})(?:[.,]\d{1,3})?"
_CUE = re.compile(rf"^[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}[^\n]*$", re.M)
_VOICE = re.compile(r"<v(?:\.[^\s>]*)?\s+([^>]{1,80})>")
_TAG = re.compile(r"</?[A-Za-z][^>\n]{0,200}>|<\d[\d:.]*>|\{\\[^}\n]{0,80}\}")
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’」』)]*$")
_CJK = re.compile(r"[\u2e80-\u9fff\uff00-\uffef]")
# A paragraph ends with a sentence past the first, at the latest at the second; or with a pause.
_LONG, _TOO_LONG, _PAUSE_S = 300, 600, 4


@dataclass(slots=True)
class _Cue:
    start: int
    end: int
    text: str


def parse_subtitles(path: Path, name: str, kind: str, encoding: str = "") -> ParsedDocument:
    """Return what is said, with times; what has no cues is read as plain text and says so."""
    text, found = decode_text(path.read_bytes(), name, encoding)
    cues = list(_cues(text.replace("\r\n", "\n").replace("\r", "\n")))
    if not any(cue.text for cue in cues):
        return read_as_text(path, name, encoding, "it has no subtitles")
    canonical = CanonicalText()
    for start, said in _paragraphs(cues):
        canonical.add(
            "paragraph", f"[{start // 3600}:{start // 60 % 60:02}:{start % 60:02}] {said}"
        )
    return canonical.finish(kind, "captions/1", encoding=found)


def _cues(text: str) -> Iterator[_Cue]:
    marks = list(_CUE.finditer(text))
    last = ""
    for at, mark in enumerate(marks):
        end = marks[at + 1].start() if at + 1 < len(marks) else len(text)
        # What stands behind an empty line is the next one's number or name, or a note.
        body = text[mark.end() : end].strip("\n").split("\n\n")[0]
        lines = [line for raw in body.split("\n") if (line := _said(raw))]
        # Live captions repeat the line before above each new one.
        fresh = lines[1:] if lines and lines[0] == last else lines
        last = lines[-1] if lines else last
        yield _Cue(_seconds(mark, 1), _seconds(mark, 4), _joined(fresh))


def _seconds(mark: re.Match[str], group: int) -> int:
    return int(mark[group] or 0) * 3600 + int(mark[group + 1]) * 60 + int(mark[group + 2])


def _said(line: str) -> str:
    return html.unescape(_TAG.sub("", _VOICE.sub(r"\1: ", line))).strip()


def _joined(parts: list[str]) -> str:
    """Return lines as one: with a blank between words, with none between Chinese characters."""
    text = ""
    for part in filter(None, parts):
        is_tight = bool(text) and bool(_CJK.match(text[-1]) or _CJK.match(part))
        text += part if is_tight or not text else f" {part}"
    return text


def _paragraphs(cues: list[_Cue]) -> Iterator[tuple[int, str]]:
    """Yield when each begins, and what is said: whole sentences where they end in time."""
    start, end, said = 0, 0, ""
    for cue in cues:
        is_over = len(said) > _LONG and _SENTENCE_END.search(said)
        if said and (is_over or len(said) > _TOO_LONG or cue.start - end > _PAUSE_S):
            yield start, said
            said = ""
        if cue.text:
            start, end = (start if said else cue.start), cue.end
            said = _joined([said, cue.text])
    if said:
        yield start, said
