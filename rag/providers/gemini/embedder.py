"""Gemini embedder: unit vectors, one per text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rag.core.errors import InvalidInputError, ProviderError
from rag.core.ports import Tokenizer
from rag.providers.bpe import BpeTokenizer
from rag.providers.gemini.client import GeminiEndpoint, failure_of, http_options, sdk_errors
from rag.providers.remote.batches import BatchLimits, EmbeddingBatcher, unit_vectors
from rag.providers.remote.retry import Failure, RetryPolicy, call_with_retry

FULL_DIM = 3072
# A batch of the service holds 100 texts; more is an error there.
LIMITS = BatchLimits(max_texts=100, max_tokens=20_000, concurrency=4)


@dataclass(frozen=True, slots=True)
class GeminiEmbedderOptions:
    """How the model is called; ``dim`` is 128 to 3072, 768, 1536 and 3072 being recommended."""

    dim: int = FULL_DIM
    timeout_s: float = 60.0
    limits: BatchLimits = LIMITS
    retry: RetryPolicy = field(default_factory=RetryPolicy)


@dataclass(frozen=True, slots=True)
class _Task:
    kind: str | None
    prefix: str = ""


# The second generation has no task types: the task is written before the text.
_FIRST = {"query": _Task("RETRIEVAL_QUERY"), "passage": _Task("RETRIEVAL_DOCUMENT")}
_SECOND = {
    "query": _Task(None, "task: search result | query: "),
    "passage": _Task(None, "title: none | text: "),
}


class GeminiEmbedder:
    """The Embedder port on Gemini. Raises ProviderError or ProviderTimeoutError; tokens are
    estimated, the model's own tokenizer being unknown here."""

    def __init__(
        self, model: str, endpoint: GeminiEndpoint, *, options: GeminiEmbedderOptions | None = None
    ) -> None:
        self._options = options or GeminiEmbedderOptions()
        self.dim = self._options.dim
        if not 1 <= self.dim <= FULL_DIM:
            raise InvalidInputError(
                "The size {dim} of Gemini's vectors is out of range.",
                hint="Allowed: 1 to {most}; 768, 1536 and 3072 work best.",
                dim=self.dim,
                most=FULL_DIM,
            )
        is_second = "embedding-2" in model
        self._tasks = _SECOND if is_second else _FIRST
        self.id = f"gemini:{model}"
        self.version = "2" if is_second else "1"
        # The published limits of 8192 and 2048 less the prefix and the error of the estimate.
        self.max_tokens = 6900 if is_second else 1700
        self.tokenizer: Tokenizer = BpeTokenizer()
        self._model = model
        self._endpoint = endpoint
        self._service = endpoint.service(model)
        self._batches = EmbeddingBatcher(self._options.limits, self.tokenizer, self.max_tokens)

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 [n, dim] for texts to be found."""
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        task, retry = self._tasks["passage"], self._options.retry
        return self._batches.embed(
            texts, lambda part: self._embed(part, task, retry), prefix=task.prefix
        )

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return float32 [dim] for a question; somebody waits, so all tries share one timeout."""
        task, once = self._tasks["query"], self._options.retry.within(self._options.timeout_s)
        rows = self._batches.embed(
            [text], lambda part: self._embed(part, task, once), prefix=task.prefix
        )
        found: NDArray[np.float32] = rows[0]
        return found

    def _embed(self, texts: list[str], task: _Task, retry: RetryPolicy) -> NDArray[np.float32]:
        rows = call_with_retry(retry, lambda left_s: self._request(texts, task, left_s))
        if len(rows) != len(texts):
            raise ProviderError(
                "{service} answered {n_texts} texts with {n_rows} vectors.",
                hint="Check the model {model}.",
                service=self._service.name,
                n_texts=len(texts),
                n_rows=len(rows),
                model=self._service.model,
            )
        return unit_vectors(self._service, rows, self.dim)

    def _request(self, texts: list[str], task: _Task, left_s: float) -> list[object] | Failure:
        # Heavy SDK, only where a model is called.
        from google.genai import types

        timeout_s = min(self._options.timeout_s, left_s)
        # A Content each: bare strings would become parts of one text, with one vector for all.
        contents = [types.Content(role="user", parts=[types.Part(text=text)]) for text in texts]
        try:
            answer = self._endpoint.client().models.embed_content(
                model=self._model,
                contents=contents,
                config=types.EmbedContentConfig(
                    task_type=task.kind,
                    output_dimensionality=self.dim,
                    http_options=http_options(timeout_s),
                ),
            )
        except sdk_errors() as error:
            return failure_of(self._service, error, timeout_s)
        return [found.values or [] for found in answer.embeddings or []]
