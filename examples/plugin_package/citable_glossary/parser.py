"""Parser ``subtitles``: what is said in SubRip files, without numbers and times."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rag.core.documents import Block, ParsedDocument
from rag.core.errors import DocumentError
from rag.core.options import option
from rag.core.plugins import register

_TIMES = re.compile(r"\d\d:\d\d:\d\d,\d{3} --> ")


@register("parser")
class Subtitles:
    """Runs in a process of its own that knows no Django: it must not be imported here."""

    name = "subtitles"
    label = "Subtitles"
    kinds = (".srt",)

    @dataclass(frozen=True)
    class Options:
        joined: int = option(5, help="So many captions make a paragraph.", minimum=1, maximum=50)

    def __init__(self, options: Options) -> None:
        self.options = options

    def parse(self, path: Path, *, name: str, kind: str, encoding: str) -> ParsedDocument:
        """Return the captions as paragraphs."""
        try:
            raw = path.read_text(encoding=encoding or "utf-8-sig")
        except UnicodeDecodeError as error:
            raise DocumentError(
                "“{name}” is not in UTF-8.", hint="Tell its encoding.", name=name
            ) from error
        captions = [said for part in raw.split("\n\n") if (said := _said(part))]
        text, blocks = "", []
        for at in range(0, len(captions), self.options.joined):
            text += "\n\n" if text else ""
            start = len(text)
            text += " ".join(captions[at : at + self.options.joined])
            blocks.append(Block("paragraph", start, len(text)))
        return ParsedDocument(kind, text, "subtitles/1", (), tuple(blocks))


def _said(part: str) -> str:
    lines = [line.strip() for line in part.splitlines()]
    return " ".join(line for line in lines if not line.isdigit() and not _TIMES.match(line)).strip()
