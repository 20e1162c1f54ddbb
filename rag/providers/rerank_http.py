"""Reranker over HTTP: ``/rerank`` as Jina, Cohere, vLLM and TEI speak it."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rag.core.errors import InvalidInputError
from rag.core.hits import MAX_SCORE
from rag.core.token_counter import current_token_counter
from rag.providers.remote.retry import Failure, RetryPolicy, call_with_retry
from rag.providers.remote.service import RemoteService, check_address, check_key

if TYPE_CHECKING:
    import httpx2

KEY_SETTING, URL_SETTING = "RAG_RERANK_KEY", "RAG_RERANK_URL"
MAX_BYTES = 4_000_000


class HttpReranker:
    """The Reranker port on a remote endpoint; ``url`` is its base or ends in ``/rerank``."""

    def __init__(self, url: str, key: str = "", model: str = "") -> None:
        base = url.strip().rstrip("/")
        if not base:
            raise InvalidInputError(
                "No reranker is set up.",
                hint="Set {url_setting}, or rerank by a chat model.",
                url_setting=URL_SETTING,
            )
        name = check_address(base, URL_SETTING)
        self._url = base if base.endswith("/rerank") else f"{base}/rerank"
        self._key, self._model = check_key(key, KEY_SETTING), model.strip()
        self.id = f"endpoint:{self._model or name}"
        self._service = RemoteService(name, self._model or "-", KEY_SETTING, URL_SETTING, self._key)

    def rerank(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        """Return a relevance of 0 to 1 for each text, in their order.

        Raises ProviderError, also for an answer that does not tell a score for every text, and
        ProviderTimeoutError.
        """
        if not texts:
            return []
        policy = RetryPolicy(max_attempts=2, deadline_s=timeout_s)
        body: dict[str, Any] = {
            "query": query,
            "documents": list(texts),
            "top_n": len(texts),
            "return_documents": False,
        }
        if self._model:
            body["model"] = self._model
        answer = call_with_retry(policy, lambda left_s: self._post(body, left_s))
        usage = answer.get("usage") if isinstance(answer, dict) else None
        current_token_counter().add(usage.get("total_tokens") if isinstance(usage, dict) else None)
        scores = _scores(answer, len(texts))
        if scores is None:
            raise self._service.unreadable("no score for each document").error
        return scores

    def _post(self, body: dict[str, Any], left_s: float) -> Any:
        # As heavy as the SDKs that stand on it, and only where such an endpoint is called.
        import httpx2

        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            answer = _client(os.getpid(), self._url).post(
                self._url, json=body, headers=headers, timeout=left_s
            )
        except httpx2.TimeoutException:
            return self._service.timed_out(left_s)
        except httpx2.HTTPError as error:
            return self._service.unreachable(str(error) or type(error).__name__)
        if answer.status_code != 200:
            return self._service.refused(answer.status_code, answer.text[:2000])
        try:
            return answer.json() if len(answer.content) <= MAX_BYTES else None
        except ValueError:
            return Failure(self._service.unreadable(answer.text[:200]).error)


def _scores(answer: Any, n_texts: int) -> list[float] | None:
    """Return the scores in the order of the texts, None for anything else than one for each."""
    rows = answer.get("results", answer.get("data")) if isinstance(answer, dict) else answer
    if not isinstance(rows, list):
        return None
    found: dict[int, float] = {}
    for row in rows:
        index = row.get("index") if isinstance(row, dict) else None
        score = row.get("relevance_score", row.get("score")) if isinstance(row, dict) else None
        is_number = isinstance(score, (int, float)) and not isinstance(score, bool)
        # JSON spells whole numbers that no float holds.
        if type(index) is not int or not is_number or not abs(score) <= MAX_SCORE:  # type: ignore[arg-type]
            return None
        if index in found or not 0 <= index < n_texts:
            return None
        found[index] = float(score)  # type: ignore[arg-type]
    if len(found) != n_texts:
        return None
    scores = [found[index] for index in range(n_texts)]
    if all(0.0 <= score <= 1.0 for score in scores):
        return scores
    # Some servers tell the model's bare logits.
    return [1 / (1 + math.exp(-max(-60.0, min(60.0, score)))) for score in scores]


@lru_cache(maxsize=4)
def _client(pid: int, url: str) -> httpx2.Client:
    # As heavy as the SDKs that stand on it, and only where such an endpoint is called.
    import httpx2

    # Built on httpx2.
    from rag.providers.remote.http import WholeTimeoutClient

    return WholeTimeoutClient(url, httpx2.create_ssl_context())
