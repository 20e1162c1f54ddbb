"""Citations benchmark, its sentences to quote, split into a tuned and a reported half."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rag.core.hits import Hit
from rag.stages.prompting.context import Passage
from rag.stages.text.sentences import sentence_spans

LANGUAGES = ("zh", "en")
PER_ARTICLE = 5


@dataclass(frozen=True, slots=True)
class Half:
    """One half of a test set: its paragraphs as passages, and phrases that people picked there.

    ``sentences`` and ``phrases`` are (number of the passage, text).
    """

    language: str
    is_tuned: bool
    passages: tuple[Passage, ...]
    sentences: tuple[tuple[int, str], ...]
    phrases: tuple[tuple[int, str], ...]


def read_halves(folder: Path, language: str) -> tuple[Half, Half]:
    """Return the paragraphs of even articles, to tune on, and of odd ones, to report on.

    XQuAD has five paragraphs an article, so that no article is in both halves.
    """
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]
    asked = [json.loads(line) for line in (folder / "queries.jsonl").open(encoding="utf-8")]
    relevant = dict(
        line.split("\t")[:2]
        for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]
    )
    answers: dict[str, list[str]] = {}
    for row in asked:
        answers.setdefault(relevant[row["_id"]], []).extend(dict.fromkeys(row["answers"]))
    even = [row for n, row in enumerate(rows) if n // PER_ARTICLE % 2 == 0]
    odd = [row for n, row in enumerate(rows) if n // PER_ARTICLE % 2 == 1]
    tuned_on, held_out = (_half(rows, answers, language) for rows in (even, odd))
    return replace(tuned_on, is_tuned=True), held_out


def as_passages(texts: Sequence[str]) -> tuple[Passage, ...]:
    """Return texts as doc_01, doc_02 and so on."""
    return tuple(
        Passage(f"doc_{n:02d}", Hit(text=text, rank=n, chunk_id=n, char_end=len(text)), text)
        for n, text in enumerate(texts, start=1)
    )


def as_tag(doc_id: str, quote: str) -> str:
    """Return the citation of ``quote`` as a model should write it."""
    return f'<cite doc_id="{doc_id}" quote="{html.escape(quote)}">claim</cite>'


def _half(rows: list[dict[str, str]], answers: dict[str, list[str]], language: str) -> Half:
    sentences, phrases = [], []
    for number, row in enumerate(rows):
        text = row["text"]
        for start, end in sentence_spans(text):
            sentence = text[start:end]
            if 15 <= len(sentence) <= 500 and sentence[-1] in "。！？.!?":
                sentences.append((number, sentence))
        # One character proves nothing, and is no quote.
        picked = [answer for answer in answers.get(row["_id"], ()) if len(answer) > 1]
        phrases += [(number, answer) for answer in picked if answer in text]
    passages = as_passages([row["text"] for row in rows])
    return Half(language, False, passages, tuple(sentences), tuple(phrases))
