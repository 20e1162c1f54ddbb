"""Batching of texts for embedding services, and their vectors decoded to unit length."""

from __future__ import annotations

import base64
import binascii
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rag.core.errors import InvalidInputError, ProviderError
from rag.core.ports import Tokenizer
from rag.providers.remote.service import RemoteService

# JSON cannot carry half of a surrogate pair; servers in C cut a text at NUL.
UNSENDABLE = re.compile("[\x00\ud800-\udfff]")

EmbedBatch = Callable[[list[str]], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How much goes into one request, in texts and (estimated) tokens, and how many at once."""

    max_texts: int = 64
    max_tokens: int = 50_000
    concurrency: int = 4


def sendable_text(text: str) -> str:
    """Return the text as it can be sent; raise InvalidInputError when nothing is left of it."""
    sent = UNSENDABLE.sub(" ", text)
    if not sent.strip():
        raise InvalidInputError(
            "A text without a single character has no vector.", hint="Leave empty texts out."
        )
    return sent


class EmbeddingBatcher:
    """Splits texts by the limits and sends the parts on a few threads of this process.

    A text of more than ``text_tokens`` is sent in windows, whose vectors are averaged: services
    refuse long texts or, worse, read only their beginning.
    """

    def __init__(self, limits: BatchLimits, tokenizer: Tokenizer, text_tokens: int) -> None:
        self._limits = limits
        self._tokenizer = tokenizer
        self._text_tokens = text_tokens
        self._pools: dict[int, ThreadPoolExecutor] = {}

    def embed(
        self, texts: Sequence[str], request: EmbedBatch, *, prefix: str = ""
    ) -> NDArray[np.float32]:
        """Return a row of ``request`` for each text, in order; there must be a text.

        The first error is raised, and what had not begun by then is not sent any more.
        """
        cut = [self._windows(sendable_text(text)) for text in texts]
        rows = self._send([prefix + window for windows in cut for window in windows], request)
        return rows if len(rows) == len(texts) else _averaged(rows, cut)

    def _windows(self, text: str) -> list[str]:
        # No token is shorter than a byte, so that most texts need no counting here.
        if len(text.encode()) <= self._text_tokens:
            return [text]
        tokens = self._tokenizer.offsets(text)
        n_windows = math.ceil(len(tokens) / self._text_tokens)
        starts = [tokens[len(tokens) * n // n_windows][0] for n in range(1, n_windows)]
        windows = [text[a:b] for a, b in pairwise([0, *starts, len(text)])]
        return [window for window in windows if window.strip()]

    def _send(self, texts: Sequence[str], request: EmbedBatch) -> NDArray[np.float32]:
        parts = [list(texts)] if len(texts) == 1 else list(self._split(texts))
        if len(parts) == 1:
            return request(parts[0])
        futures = [self._pool().submit(request, part) for part in parts]
        try:
            return np.concatenate([future.result() for future in futures])
        finally:
            for future in futures:
                future.cancel()

    def _split(self, texts: Sequence[str]) -> Iterator[list[str]]:
        part: list[str] = []
        n_tokens = 0
        for text in texts:
            n_own = self._tokenizer.count(text)
            is_full = len(part) == self._limits.max_texts
            if part and (is_full or n_tokens + n_own > self._limits.max_tokens):
                yield part
                part, n_tokens = [], 0
            part.append(text)
            n_tokens += n_own
        if part:
            yield part

    def _pool(self) -> ThreadPoolExecutor:
        # One pool for all callers bounds them together. Its threads do not survive a fork, hence
        # one a process; of two made at the same moment the dict keeps the first.
        pid = os.getpid()
        if pid not in self._pools:
            made = ThreadPoolExecutor(self._limits.concurrency, thread_name_prefix="embed-remote")
            self._pools.setdefault(pid, made)
        return self._pools[pid]


def _averaged(rows: NDArray[np.float32], cut: Sequence[Sequence[str]]) -> NDArray[np.float32]:
    """Return one unit row a text: the mean over its windows, weighted by their lengths."""
    weights = np.asarray([len(window) for windows in cut for window in windows], dtype=np.float32)
    firsts = np.cumsum([0, *(len(windows) for windows in cut)])[:-1]
    sums = np.add.reduceat(rows * weights[:, None], firsts, axis=0)
    # A text in one piece keeps its very vector, whatever its neighbours are.
    whole = np.asarray([len(windows) == 1 for windows in cut])
    sums[whole] = rows[firsts[whole]]
    sums[~whole] /= np.linalg.norm(sums[~whole], axis=1, keepdims=True)
    return sums


def unit_vectors(service: RemoteService, rows: Sequence[object], dim: int) -> NDArray[np.float32]:
    """Return float32 [n, dim], L2-normalised; raise ProviderError for anything else.

    A row is a list of numbers or base64 of little-endian float32; ``dim`` 0 takes any one size.
    """
    decoded = [_decode(service, row) for row in rows]
    wanted = dim or len(decoded[0])
    for row in decoded:
        if len(row) != wanted:
            raise ProviderError(
                "The model {model} makes vectors of {found} numbers, but {wanted} are expected.",
                hint="Set RAG_EMBEDDING_DIM to {found}, or choose the model that the store uses.",
                model=service.model,
                found=len(row),
                wanted=wanted,
            )
    matrix = np.stack(decoded)
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    if not np.isfinite(largest).all() or not (largest > 0).all():
        raise ProviderError(
            "The model {model} made a vector that is zero or not finite.",
            hint="Check the model at {service}.",
            model=service.model,
            service=service.name,
        )
    # Scaled first: squares of very large or small numbers leave the range.
    matrix /= largest
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix.astype(np.float32)


def _decode(service: RemoteService, row: object) -> NDArray[np.float64]:
    try:
        if isinstance(row, str):
            raw = base64.b64decode(row, validate=True)
            decoded = np.frombuffer(raw, dtype="<f4").astype(np.float64)
        else:
            decoded = np.asarray(row, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, binascii.Error):
        raise service.unreadable("a vector that is no list of numbers").error from None
    if decoded.ndim != 1 or not len(decoded):
        raise service.unreadable("a vector that is no list of numbers").error
    return decoded
