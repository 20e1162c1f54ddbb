"""Embedding provider ``letters``: vectors of a text's groups of letters, for short terms."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag.core.options import option
from rag.core.plugins import register


@register("embedding")
class Letters:
    """The model ``letters:<dimensions>``."""

    name = "letters"
    label = "Groups of letters"

    @dataclass(frozen=True)
    class Options:
        group: int = option(3, help="Letters in a group.", minimum=1, maximum=5)

    def __init__(self, options: Options) -> None:
        self.options = options

    def load(self, model: str) -> LetterEmbedder:
        """Return the embedder of as many dimensions as the model's name says."""
        return LetterEmbedder(int(model), self.options.group)


class LetterTokenizer:
    """Every character is a token."""

    id = "letters"

    def count(self, text: str) -> int:
        """Return the number of characters."""
        return len(text)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the place of each character."""
        return [(at, at + 1) for at in range(len(text))]


class LetterEmbedder:
    """Counts groups of letters in hashed places."""

    max_tokens = 100_000

    def __init__(self, dim: int, group: int) -> None:
        self.id, self.dim, self.version = f"letters:{dim}", dim, f"1-{group}"
        self.tokenizer = LetterTokenizer()
        self._group = group

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 [n, dim]."""
        rows = [self.embed_query(text) for text in texts]
        return np.array(rows, dtype=np.float32).reshape(len(texts), self.dim)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return float32 [dim]."""
        counts = np.full(self.dim, 1e-3, dtype=np.float32)
        padded = f" {text.casefold()} "
        for at in range(len(padded)):
            part = padded[at : at + self._group].encode("utf-8", "replace")
            counts[zlib.crc32(part) % self.dim] += 1
        return counts / np.float32(np.linalg.norm(counts))
