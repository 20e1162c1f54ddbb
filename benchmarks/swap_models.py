"""Two models for made-up passages: what was made with them, and half of its axes. By look-up."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.spool import Spool
from benchmarks.synthetic import DIM, Question
from rag.core.plugins import PLUGINS
from rag.services.wiring import registry as wiring
from rag.stages.text.simplified import embedded_text
from tests.fakes.model_plugins import fake_provider

NEW_DIM = DIM // 2
NEW = f"bench:{NEW_DIM}"
_KNOWN: dict[int, NDArray[np.float32]] = {}


class Tokens:
    """Counts characters; nothing is cut here."""

    id = "characters"

    def count(self, text: str) -> int:
        """Return the number of characters."""
        return len(text)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return a span a character."""
        return [(at, at + 1) for at in range(len(text))]


class LookupEmbedder:
    """An embedder that looks vectors up, so that a move pays for the database alone."""

    version, max_tokens, tokenizer = "1", 512, Tokens()

    def __init__(self, dim: int) -> None:
        self.id, self.dim = f"bench:{dim}", dim

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a known text."""
        part = _KNOWN[_key(text)][: self.dim]
        return part / np.linalg.norm(part)

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of known texts."""
        return np.stack([self.embed_query(text) for text in texts])


def make(model: str) -> LookupEmbedder:
    """Return the embedder of so many axes."""
    return LookupEmbedder(int(model))


def use_models(
    folder: Path, spool: Spool | None = None, questions: Sequence[Question] = ()
) -> None:
    """Let ``bench:384`` and ``bench:192`` be models; else of kept questions."""
    PLUGINS.add("embedding", fake_provider("bench", make))
    kept = folder / "questions.pickle"
    if questions:
        kept.write_bytes(pickle.dumps({q.text: q.vector for q in questions}))
    for text, vector in pickle.loads(kept.read_bytes()).items():
        _KNOWN[_key(embedded_text(text))] = vector
    for passage in spool or ():
        _KNOWN.setdefault(_key(embedded_text(passage.text)), passage.vector)
    for maker in (wiring._embedder, wiring.embedder_of):
        maker.cache_clear()


def _key(text: str) -> int:
    return zlib.crc32(text.encode())


def questions_of(folder: Path) -> list[str]:
    """Return the questions that are kept in a folder."""
    return list(pickle.loads((folder / "questions.pickle").read_bytes()))
