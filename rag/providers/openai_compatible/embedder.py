"""Embedder on any OpenAI-compatible server: unit vectors, one per text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag.core.errors import ConfigurationError, ProviderError
from rag.core.ports import Tokenizer
from rag.core.token_counter import TokenCounter, current_token_counter
from rag.providers.bpe import BpeTokenizer
from rag.providers.openai_compatible.client import OpenAIEndpoint, openai_failure
from rag.providers.remote.batches import BatchLimits, EmbeddingBatcher, unit_vectors
from rag.providers.remote.retry import Failure, RetryPolicy, call_with_retry


@dataclass(frozen=True, slots=True)
class EmbedderOptions:
    """What a model wants said, and how it is called.

    ``dimensions`` is asked of the server only when set. Prefixes are what E5, BGE and Qwen were
    trained with; the ``_body`` mappings are further fields of the request, such as
    ``{"input_type": "query"}``. ``max_tokens`` is the longest text in o200k tokens, prefix
    included: less than OpenAI's 8191, whose embedding models cut Chinese into more tokens.
    """

    dimensions: int | None = None
    query_prefix: str = ""
    passage_prefix: str = ""
    query_body: Mapping[str, Any] = field(default_factory=dict)
    passage_body: Mapping[str, Any] = field(default_factory=dict)
    encoding: str = "float"
    max_tokens: int = 5000
    timeout_s: float = 60.0
    limits: BatchLimits = field(default_factory=BatchLimits)
    retry: RetryPolicy = field(default_factory=RetryPolicy)


class OpenAICompatibleEmbedder:
    """The Embedder port on a remote ``/embeddings``; ``dim`` 0 learns it now by one request.

    Raises ProviderError or ProviderTimeoutError; tokens are estimated, since the model's own
    tokenizer is unknown here.
    """

    def __init__(
        self,
        model: str,
        base_url: str = "",
        api_key: str = "",
        dim: int = 0,
        *,
        options: EmbedderOptions | None = None,
    ) -> None:
        self._options = options or EmbedderOptions()
        asked = self._options.dimensions
        if dim and asked and dim != asked:
            raise ConfigurationError(
                "Vectors of {dim} numbers are expected, but {asked} are asked for.",
                hint="Set one size in RAG_EMBEDDING_DIM.",
                dim=dim,
                asked=asked,
            )
        self.id = f"openai_compatible:{model}"
        self.version = _version(self._options)
        self.tokenizer: Tokenizer = BpeTokenizer()
        self._model = model
        self._endpoint = OpenAIEndpoint.checked(base_url, api_key)
        self._service = self._endpoint.service(model)
        prefixes = [self._options.query_prefix, self._options.passage_prefix]
        n_prefix = max(self.tokenizer.count(prefix) for prefix in prefixes) if any(prefixes) else 0
        self.max_tokens = self._options.max_tokens - n_prefix
        self._batches = EmbeddingBatcher(self._options.limits, self.tokenizer, self.max_tokens)
        self.dim = dim or asked or 0
        self.dim = self.dim or len(self.embed_query("size"))

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 [n, dim] for texts to be found."""
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        options, tally = self._options, current_token_counter()
        return self._batches.embed(
            texts,
            lambda part: self._embed(part, options.passage_body, options.retry, tally),
            prefix=options.passage_prefix,
        )

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return float32 [dim] for a question; somebody waits, so all tries share one timeout."""
        options, tally = self._options, current_token_counter()
        retry = options.retry.within(options.timeout_s)
        rows = self._batches.embed(
            [text],
            lambda part: self._embed(part, options.query_body, retry, tally),
            prefix=options.query_prefix,
        )
        found: NDArray[np.float32] = rows[0]
        return found

    def _embed(
        self, texts: list[str], body: Mapping[str, Any], retry: RetryPolicy, tally: TokenCounter
    ) -> NDArray[np.float32]:
        answer = call_with_retry(retry, lambda left_s: self._request(texts, body, left_s))
        rows = self._rows(answer, len(texts))
        usage = json.loads(answer).get("usage")
        tally.add(usage.get("prompt_tokens") if isinstance(usage, dict) else None)
        return unit_vectors(self._service, rows, self.dim)

    def _request(self, texts: list[str], body: Mapping[str, Any], left_s: float) -> str | Failure:
        # Heavy SDK, only where a model is called.
        import openai

        timeout_s = min(self._options.timeout_s, left_s)
        client, _ = self._endpoint.clients()
        try:
            answer = client.embeddings.with_raw_response.create(
                model=self._model,
                input=texts,
                dimensions=self._options.dimensions or openai.omit,
                encoding_format=self._options.encoding,  # type: ignore[arg-type]
                extra_body=dict(body),
                extra_headers=self._endpoint.headers(),
                timeout=timeout_s,
            )
        except openai.OpenAIError as error:
            return openai_failure(self._service, error, timeout_s)
        return str(answer.http_response.text)

    def _rows(self, answer: str, n_texts: int) -> list[object]:
        """Return one row a text, by ``index``: servers answer in any order."""
        try:
            items = json.loads(answer)["data"]
            rows = [(item.get("index"), item["embedding"]) for item in items]
            placed = dict(rows)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._service.unreadable(answer).error from None
        if len(rows) != n_texts:
            raise ProviderError(
                "{service} answered {n_texts} texts with {n_rows} vectors.",
                hint="Check the server: a vector on the wrong text would be found wrongly.",
                service=self._service.name,
                n_texts=n_texts,
                n_rows=len(rows),
            )
        if all(index is None for index, _ in rows):
            return [row for _, row in rows]
        if set(placed) != set(range(n_texts)):
            raise self._service.unreadable("vectors whose index is missing or given twice").error
        return [placed[position] for position in range(n_texts)]


def _version(options: EmbedderOptions) -> str:
    said = [options.query_prefix, options.passage_prefix]
    bodies = [dict(options.query_body), dict(options.passage_body)]
    if not any(said) and not any(bodies):
        return "1"
    return (
        "1-" + hashlib.sha256(json.dumps([said, bodies], sort_keys=True).encode()).hexdigest()[:8]
    )
