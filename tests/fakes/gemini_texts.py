"""Fake Gemini: chunking and ranking of file texts.

Nothing here is clever: words and pairs of Han characters are compared; equal input, equal output.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pypdfium2 import PdfDocument, PdfiumError

HAN = "\u3400-\u9fff\uf900-\ufaff"
# An index of the whole of a huge file would cost the tests minutes.
MAX_READ = 2_000_000
_TOKEN = re.compile(rf"[{HAN}]|[^\s{HAN}]+")
_SENTENCE = re.compile(r"[^。！？!?\n]*?(?:[。！？!?]+|\.(?=\s|$)|\n|$)")
_STOP_WORDS = (
    "a an and are as at be by do does for from how in is it its of on or that the this to was what "
    "when where which who why will with"
)
_STOP = frozenset(_STOP_WORDS.split())
_STOP_HAN = frozenset("的是什麼么了在有和多久怎吗嗎呢")
_DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@dataclass(frozen=True)
class Piece:
    """A chunk of a document; ``media`` names the blob of a picture, which has no text."""

    text: str
    page: int | None = None
    media: str = ""


def read_pages(data: bytes, mime_type: str) -> list[str] | None:
    """Return a text a page, or None for what cannot be read, which makes a document fail."""
    try:
        if mime_type == "application/pdf":
            with PdfDocument(data) as pdf:
                return [page.get_textpage().get_text_range() for page in pdf]
        if mime_type == _DOCX:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                xml = archive.read("word/document.xml").decode()
            paragraphs = (re.sub("<[^>]+>", "", part) for part in xml.split("</w:p>"))
            return ["\n".join(paragraphs)]
        text = data[:MAX_READ].decode("utf-8", "strict" if len(data) <= MAX_READ else "ignore")
    except (PdfiumError, UnicodeDecodeError, KeyError, zipfile.BadZipFile):
        return None
    return None if "\0" in text else [text]


def cut(text: str, max_tokens: int, overlap: int) -> list[str]:
    """Return slices of so many white-space tokens, a Han character being one of its own."""
    spans = [match.span() for match in _TOKEN.finditer(text)]
    step = max(1, max_tokens - overlap)
    pieces = []
    for first in range(0, len(spans), step):
        part = spans[first : first + max_tokens]
        pieces.append(text[part[0][0] : part[-1][1]])
        if first + max_tokens >= len(spans):
            break
    return pieces


def terms(text: str) -> Counter[str]:
    """Return words without the commonest, and pairs of Han characters."""
    found = Counter(word for word in re.findall(r"[^\W_]+", re.sub(f"[{HAN}]", " ", text.lower())))
    for run in re.findall(f"[{HAN}]+", text):
        found.update(run[at : at + 2] for at in range(len(run) - 1))
        found.update([run] if len(run) == 1 else [])
    return Counter(
        {term: n for term, n in found.items() if term not in _STOP and not set(term) <= _STOP_HAN}
    )


def rank(question: str, texts: Sequence[str], top_k: int) -> list[tuple[int, float]]:
    """Return (index, score) of the texts that share words with the question, best first."""
    asked = terms(question)
    held = [terms(text) for text in texts]
    weights = {
        term: math.log(1 + len(texts) / n)
        for term in asked
        if (n := sum(term in found for found in held))
    }
    n_asked = len(asked) or 1
    scored = []
    for at, found in enumerate(held):
        shared = [term for term in weights if term in found]
        # A single pair of many that agrees is chance.
        if shared and len(shared) / n_asked >= 0.2:
            scored.append((at, sum(weights[term] for term in shared)))
    return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:top_k]


def best_sentence(question: str, text: str) -> str:
    """Return the sentence of the text that shares most words with the question."""
    sentences = [s for match in _SENTENCE.finditer(text) if (s := match[0].strip())]
    asked = terms(question)
    return max(sentences, key=lambda s: len(asked.keys() & terms(s).keys()), default=text.strip())
