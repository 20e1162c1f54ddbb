"""Documents, chunks and page images as values; positions are code points of the canonical text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Self

from rag.core.errors import InvalidInputError

IMAGE_KINDS = ("png", "jpg", "tiff", "webp", "gif", "bmp")
# Texts with pictures in them.
PICTURED_KINDS = ("docx", "pptx")
DATA_KINDS = (
    *("json", "jsonl", "yaml", "xml", "ipynb", "toml", "ini", "properties", "srt", "vtt"),
)
KINDS = (
    *("pdf", "doc", "docx", "rtf", "odt", "wps", "pptx", "ppt", "odp", "xlsx", "xls", "ods"),
    *("ofd", "html", "epub", "eml", "msg", "md", "csv", "txt"),
    *DATA_KINDS,
    *IMAGE_KINDS,
)
# Ends of names, beside those that are called as their kind.
SUFFIXES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys((".docm", ".dotx", ".dotm"), "docx"),
        **dict.fromkeys((".pptm", ".ppsx", ".potx"), "pptx"),
        **dict.fromkeys((".xlsm", ".xltx"), "xlsx"),
        **dict.fromkeys((".xlt", ".et"), "xls"),
        **dict.fromkeys((".pps", ".pot", ".dps"), "ppt"),
        **dict.fromkeys((".ott", ".fodt"), "odt"),
        **dict.fromkeys((".ots", ".fods"), "ods"),
        **dict.fromkeys((".otp", ".fodp"), "odp"),
        **dict.fromkeys((".htm", ".xhtml"), "html"),
        **dict.fromkeys((".mht", ".mhtml"), "eml"),
        **dict.fromkeys((".cfg", ".conf"), "ini"),
        **{".dot": "doc", ".markdown": "md", ".tsv": "csv", ".ndjson": "jsonl", ".geojson": "json"},
        **{".yml": "yaml", ".rss": "xml", ".xsd": "xml", ".jpeg": "jpg", ".tif": "tiff"},
    }
)


def kind_of_name(name: str) -> str:
    """Return the kind that the end of a file's name says, empty for all others."""
    suffix = PurePath(name).suffix.lower()
    return suffix[1:] if suffix[1:] in KINDS else SUFFIXES.get(suffix, "")


@dataclass(frozen=True, slots=True)
class Page:
    """One page, slide or sheet: ``text[start:end]`` of the canonical text.

    ``margin`` holds its running head and foot, which the text leaves out. ``confidence`` is that
    of OCR, 0 to 1; None where the file itself has the text.
    """

    number: int
    label: str
    start: int
    end: int
    has_text_layer: bool = True
    margin: str = ""
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A heading, paragraph, table, list or code block: ``text[start:end]``.

    ``level`` is 1-6 for headings, for tables the number of header rows where there are several, and
    0 for all others.
    """

    kind: str
    start: int
    end: int
    level: int = 0


@dataclass(frozen=True, slots=True, init=False)
class Notice:
    """What a reader of a file should know: a ``str.format`` template with its values as text.

    It is stored as ``RAGError.as_dict`` is, and translated when it is shown.
    """

    message: str
    params: Mapping[str, str]

    def __init__(self, message: str, **params: object) -> None:
        object.__setattr__(self, "message", message)
        object.__setattr__(self, "params", {name: str(value) for name, value in params.items()})

    def __str__(self) -> str:
        return self.message.format(**self.params)

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON-safe form."""
        return {"message": self.message, "hint": "", "params": dict(self.params)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Return the notice that ``as_dict`` was made from."""
        return cls(stored["message"], **stored["params"])


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """What a parser makes of a file. Pages are joined by a form feed in ``text``."""

    kind: str
    text: str
    parser: str
    pages: tuple[Page, ...] = ()
    blocks: tuple[Block, ...] = ()
    encoding: str = ""
    title: str = ""
    warnings: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class ChunkRule:
    """How long chunks are, in tokens of the store's embedding model, and what cuts them.

    ``splitter`` is a plugin's name; empty is the installation's, RAG_SPLITTER.
    """

    max_tokens: int = 200
    overlap_tokens: int = 20
    splitter: str = ""

    def __post_init__(self) -> None:
        if not 50 <= self.max_tokens <= 500:
            raise InvalidInputError(
                "max_tokens_per_chunk is {value}.",
                hint="Allowed: 50 to 500.",
                value=self.max_tokens,
            )
        if not 0 <= self.overlap_tokens <= 100:
            raise InvalidInputError(
                "max_overlap_tokens is {value}.",
                hint="Allowed: 0 to 100.",
                value=self.overlap_tokens,
            )

    @property
    def effective_overlap(self) -> int:
        """Return the overlap that leaves more new than repeated text in each chunk."""
        return max(0, min(self.overlap_tokens, self.max_tokens // 2 - 3))

    @property
    def notice(self) -> Notice | None:
        """Return what to say when the overlap had to be clamped."""
        if self.effective_overlap == self.overlap_tokens:
            return None
        return Notice(
            "An overlap of {overlap} tokens would swallow chunks of {size}: {used} is used.",
            overlap=self.overlap_tokens,
            size=self.max_tokens,
            used=self.effective_overlap,
        )


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span of the canonical text: ``canonical[char_start:char_end] == text``.

    ``own_start`` is where the part that no earlier chunk holds begins; ``page_first`` and
    ``page_last`` are None where the format has no pages. ``context`` is text from elsewhere in the
    document that the span needs to be understood, such as a table's header row or a list's lead: it
    is embedded and indexed with the chunk, but is no part of it. ``parent_start`` is the same for
    the chunks that are shown together when one of them is found.
    """

    ordinal: int
    char_start: int
    char_end: int
    own_start: int
    text: str
    token_count: int
    page_first: int | None = None
    page_last: int | None = None
    heading_path: tuple[str, ...] = ()
    block_kinds: tuple[str, ...] = ()
    context: str = ""
    parent_start: int | None = None


@dataclass(frozen=True, slots=True)
class MarkedQuote:
    """A quote to be marked on its page, without the spans of it that are ``omitted``, in order.

    ``around`` is the page's text before and behind it, which tells equal words apart.
    """

    quote: str = ""
    omitted: Sequence[Sequence[int]] = ()
    around: tuple[str, str] = ("", "")


Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class PageImage:
    """``png`` with its size in pixels; ``boxes`` are left, top, width, height in shares of it."""

    png: bytes
    width: int
    height: int
    boxes: tuple[Box, ...] = ()
