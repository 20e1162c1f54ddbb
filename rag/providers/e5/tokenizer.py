"""XLM-RoBERTa tokenizer (sentencepiece): ids, counts and offsets in the original text.

Vocabulary and replacements come from the weights file. The replacements are made here and not by
the sentencepiece package, because positions must be code points of the original text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from sentencepiece import SentencePieceProcessor
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from rag.providers.e5.weights import SHARED, Vocabulary
from rag.providers.local_models import Once

BOUNDARY = "▁"
_PIECE_CHARS = 200_000
_SPACES = re.compile("  +")


class E5Tokenizer:
    """Counts and locates tokens as multilingual-e5-small sees them, specials left out.

    All of a process share one model of 60 MB, made at first use in a second.
    """

    id = "xlm-roberta"
    version = 2
    """Goes up when a text may be cut otherwise, be it by a tie."""
    _model = Once(lambda: _Model(SHARED.get().vocabulary()))

    def count(self, text: str) -> int:
        """Return the number of tokens of ``text``."""
        return len(self.ids(text))

    def ids(self, text: str) -> list[int]:
        """Return the token ids of ``text``."""
        return self._model.get().ids(text)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return each token's (start, end) in code points of ``text``, in order.

        Starts and ends never go down. A token that stands for nothing but the word boundary before
        the first character is empty; tokens of one replaced character, such as ㍿, share its span.
        """
        return self._model.get().offsets(text)


class _Model:
    """Unigram segmentation (Kudo 2018); every unknown character is a token of its own."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._unknown = vocabulary.unknown
        self._unigram = _unigram(vocabulary)
        table: dict[int, str] = {0: "", **vocabulary.replacements}
        # Lone surrogates cannot be encoded; they count as the character for the undecodable.
        invalid = table.get(0xFFFD, "\ufffd")
        self._table = {**table, **dict.fromkeys(range(0xD800, 0xE000), invalid)}
        self._uneven = _uneven_runs(self._table)

    def ids(self, text: str) -> list[int]:
        normal = _SPACES.sub(" ", text.translate(self._table))
        found: list[int] = []
        for part, ids in self._encode(_marked(normal)):
            if self._unknown in ids:
                sizes = map(len, self._unigram.encode(part, out_type=str))
                for token, size in zip(ids, sizes, strict=True):
                    found.extend([token] * (size if token == self._unknown else 1))
            else:
                found.extend(ids)
        return found

    def offsets(self, text: str) -> list[tuple[int, int]]:
        normal, starts = self._normalise(text)
        if not normal:
            return []
        marked = _marked(normal)
        ends = starts + 1
        if len(marked) > len(normal):
            starts, ends = np.insert(starts, 0, starts[0]), np.insert(ends, 0, starts[0])
        found: list[tuple[int, int]] = []
        at = 0
        for part, ids in self._encode(marked):
            sizes = self._sizes(part, ids)
            cuts = at + np.concatenate(([0], np.cumsum(sizes, dtype=np.intp)))
            first, last = starts[cuts[:-1]].tolist(), ends[cuts[1:] - 1].tolist()
            found.extend(zip(first, last, strict=True))
            at += len(part)
        return found

    def _sizes(self, part: str, ids: list[int]) -> list[int]:
        """Return each token's number of characters; together they are all of the part."""
        sizes = [len(piece) for piece in self._unigram.encode(part, out_type=str)]
        if self._unknown not in ids:
            return sizes
        # The package fuses neighbouring unknown characters into one token; a chunker could then
        # never cut within a page of a script that the model does not know.
        return [
            one
            for token, size in zip(ids, sizes, strict=True)
            for one in ([1] * size if token == self._unknown else [size])
        ]

    def _encode(self, marked: str) -> Iterator[tuple[str, list[int]]]:
        # Pieces are cut at a word boundary, which no token crosses: memory stays bounded.
        at = 0
        while at < len(marked):
            cut = marked.find(BOUNDARY, at + _PIECE_CHARS)
            cut = cut if cut > 0 else len(marked)
            yield marked[at:cut], self._unigram.encode(marked[at:cut])
            at = cut

    def _normalise(self, text: str) -> tuple[str, NDArray[np.intp]]:
        """Return the normalised text and the position in ``text`` of each of its characters."""
        parts: list[str] = []
        origins: list[NDArray[np.intp]] = []
        at = 0
        for run in self._uneven.finditer(text):
            parts.append(text[at : run.start()].translate(self._table))
            origins.append(np.arange(at, run.start()))
            kept = _squeeze(self._table, text, run.start(), run.end())
            parts.append("".join(char for char, _ in kept))
            origins.append(np.array([position for _, position in kept], dtype=np.intp))
            at = run.end()
        parts.append(text[at:].translate(self._table))
        origins.append(np.arange(at, len(text)))
        return "".join(parts), np.concatenate(origins)


def _squeeze(table: Mapping[int, str], text: str, start: int, end: int) -> list[tuple[str, int]]:
    kept: list[tuple[str, int]] = []
    for position in range(start, end):
        char = text[position]
        for new in table.get(ord(char), char):
            if new == " " and kept and kept[-1][0] == " ":
                continue
            kept.append((new, position))
    return kept


def _uneven_runs(table: Mapping[int, str]) -> re.Pattern[str]:
    """Match what may change the number of characters: all else is replaced one for one."""
    resized = {code for code, new in table.items() if len(new) != 1}
    spacing = {code for code, new in table.items() if " " in new} | {ord(" ")} | resized
    return re.compile(f"{_char_class(spacing)}{{2,}}|{_char_class(resized)}")


def _char_class(codes: set[int]) -> str:
    ordered = sorted(codes)
    gaps = [i for i, (a, b) in enumerate(pairwise(ordered), 1) if b != a + 1]
    edges = [0, *gaps, len(ordered)]
    ranges = [(ordered[a], ordered[b - 1]) for a, b in pairwise(edges)]
    return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges) + "]"


def _marked(normal: str) -> str:
    if not normal:
        return ""
    return ("" if normal[0] == " " else BOUNDARY) + normal.replace(" ", BOUNDARY)


def _unigram(vocabulary: Vocabulary) -> SentencePieceProcessor:
    model = ModelProto()
    kind = ModelProto.SentencePiece.Type
    for number, (piece, score) in enumerate(zip(vocabulary.pieces, vocabulary.scores, strict=True)):
        # Text that spells a special, such as the HTML tag <s>, is only text.
        special = kind.UNKNOWN if number == vocabulary.unknown else kind.CONTROL
        model.pieces.add(piece=piece, score=score, type=kind.NORMAL if score else special)
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    trainer.model_type, trainer.unk_id = trainer.ModelType.UNIGRAM, vocabulary.unknown
    trainer.bos_id = trainer.eos_id = trainer.pad_id = -1
    normalizer.name, normalizer.add_dummy_prefix = "identity", False
    normalizer.remove_extra_whitespaces = normalizer.escape_whitespaces = False
    return SentencePieceProcessor(model_proto=model.SerializeToString())
