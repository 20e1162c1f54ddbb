"""Passages of a Citable site as LangChain documents. In: a question. Out: documents, best first."""

from __future__ import annotations

from typing import Any, Literal

import httpx
from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, SecretStr

_KEPT = (
    "score",
    "file_id",
    "store_id",
    "chunk_id",
    "revision",
    "char_start",
    "char_end",
    "page_first",
    "page_last",
    "heading_path",
    "content_type",
    "source_name",
)


class CitableError(RuntimeError):
    """What the site refused and why; ``code`` is its word for programs, ``status`` that of HTTP."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class CitableRetriever(BaseRetriever):
    """Searches stores of a Citable site with the rights of a key.

    ``k`` None leaves the number of passages to the question. ``settings`` replace what they name of
    the first store's own retrieval settings. A document's metadata tell where its text stands:
    ``char_start`` and ``char_end`` in the file's text, page, headings.
    """

    url: str = Field(description="The site, such as https://kb.example.org")
    api_key: SecretStr
    stores: list[str] = Field(min_length=1, description="By slug, name or resource name.")
    k: int | None = Field(None, ge=1, le=200)
    mode: Literal["auto", "semantic", "keyword", "hybrid"] = "auto"
    settings: dict[str, Any] = Field(default_factory=dict)
    timeout_s: float = 30.0

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        with httpx.Client(timeout=self.timeout_s) as client:
            answer = client.post(self._address, json=self._body(query, k), headers=self._headers)
        return _documents(answer)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        async with httpx.AsyncClient(timeout=self.timeout_s) as client:
            answer = await client.post(
                self._address, json=self._body(query, k), headers=self._headers
            )
        return _documents(answer)

    @property
    def _address(self) -> str:
        return f"{self.url.rstrip('/')}/api/rag/retrieve"

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key.get_secret_value()}"}

    def _body(self, query: str, k: int | None) -> dict[str, Any]:
        wanted = k or self.k
        settings = {**self.settings, "top_k": wanted} if wanted else self.settings
        body = {"query": query, "stores": self.stores, "retrieval_mode": self.mode}
        return {**body, "settings": settings} if settings else body


def _documents(answer: httpx.Response) -> list[Document]:
    if answer.status_code != 200:
        raise _refusal(answer)
    return [_document(hit) for hit in answer.json()["hits"]]


def _document(hit: dict[str, Any]) -> Document:
    metadata = {name: hit[name] for name in _KEPT if hit.get(name) is not None}
    chunk = hit.get("chunk_id")
    return Document(
        id=None if chunk is None else str(chunk),
        page_content=hit["content"],
        metadata={**hit["metadata"], **metadata, "source": hit["source"]["name"]},
    )


def _refusal(answer: httpx.Response) -> CitableError:
    try:
        error = answer.json()["error"]
        message = " ".join(filter(None, [error["message"], error["hint"]]))
        fields = error.get("fields", {}).items()
        message += "".join(f" {name}: {' '.join(texts)}" for name, texts in fields)
        return CitableError(answer.status_code, error["code"], message)
    except (ValueError, LookupError, TypeError, AttributeError):
        # Something in between answered, such as a proxy.
        return CitableError(answer.status_code, "", f"{answer.url} answered {answer.status_code}")
