"""Milvus client: a server by address, or a file of milvus-lite.

Its words pass ``clean`` and its exceptions go no further: both may quote what they were sent.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rag.core.errors import (
    ConfigurationError,
    ConflictError,
    NotFoundError,
    ProviderError,
    ProviderTimeoutError,
    RAGError,
)
from rag.providers.remote.service import RemoteService, check_address, check_key

if TYPE_CHECKING:
    from pymilvus import MilvusClient

URI_SETTING, TOKEN_SETTING = "RAG_MILVUS_URI", "RAG_MILVUS_TOKEN"
_REQUIREMENTS = "pymilvus==3.0.2 milvus-lite==3.2.2"
_NO_SUCH_COLLECTION, _NOT_LOADED = 100, 101
# gRPC's word, and pymilvus' number for a first connection that failed.
_UNREACHABLE = ("UNAVAILABLE", "2")


class MilvusServer:
    """Speaks to one Milvus; connects when first asked, and again after a failure.

    ``timeout_s`` bounds each call, its retries included.
    """

    def __init__(self, uri: str, token: str = "", timeout_s: float = 10.0) -> None:
        self._uri, self._timeout_s = uri.strip(), timeout_s
        self._token = check_key(token, TOKEN_SETTING)
        self._is_lite = self._uri.endswith(".db") and "://" not in self._uri
        self.name = "milvus-lite" if self._is_lite else f"Milvus at {_address(self._uri)}"
        self._service = RemoteService(self.name, "-", TOKEN_SETTING, URI_SETTING, self._token)
        self._lock = threading.Lock()
        self._client: MilvusClient | None = None

    def call(self, method: str, *args: Any, **values: Any) -> Any:
        """Return what a method of pymilvus' client returns.

        Raises NotFoundError for a collection that is not there, ConflictError for one that is not
        in memory, ProviderError for all else, ProviderTimeoutError among it, and
        ConfigurationError where pymilvus is not installed.
        """
        values = {"timeout": self._timeout_s, **values}
        return self.watched(lambda: getattr(self._connected(), method)(*args, **values))

    def read(self, method: str, collection: str, **values: Any) -> Any:
        """Return what a method finds in a collection, which is brought into memory first if it
        is not there; raises as ``call`` does."""
        try:
            return self.call(method, collection, **values)
        except ConflictError:
            self.call("load_collection", collection)
        return self.call(method, collection, **values)

    def watched(self, work: Callable[[], Any]) -> Any:
        """Return what ``work`` returns, which asks the server; raises as ``call`` does."""
        pymilvus = import_pymilvus()
        import grpc  # comes with pymilvus

        try:
            return work()
        except pymilvus.MilvusException as error:
            fault = self._fault(error.code, error.message)
        except grpc.RpcError as error:
            fault = self._fault(error.code(), error.details())
        # Outside of the except, so that no vendor's exception hangs on ours as its cause.
        raise fault

    def _connected(self) -> MilvusClient:
        with self._lock:
            if self._client is None:
                # gRPC sends even what stays in this process through HTTP_PROXY.
                here = {"grpc_options": {"grpc.enable_http_proxy": 0}} if self._is_lite else {}
                self._client = import_pymilvus().MilvusClient(
                    self._uri, token=self._token, timeout=self._timeout_s, **here
                )
            return self._client

    def _fault(self, code: Any, reason: object) -> RAGError:
        kind = str(getattr(code, "name", code))
        if code == _NO_SUCH_COLLECTION:
            return NotFoundError("{service} has no such collection.", service=self.name)
        if code == _NOT_LOADED:
            return ConflictError("{service} has released the collection.", service=self.name)
        if kind == "DEADLINE_EXCEEDED" or "Retry timeout" in str(reason):
            return ProviderTimeoutError(
                "{service} did not answer within {seconds} s.",
                hint="Look whether it runs and has memory left.",
                service=self.name,
                seconds=f"{self._timeout_s:.3g}",
            )
        if kind in _UNREACHABLE:
            return self._service.unreachable(reason).error
        return ProviderError(
            "{service} refused a request.",
            hint="The log says more. rag_feed --all brings its contents up to date.",
            detail=self._service.logged("refused", reason),
            service=self.name,
        )


def import_pymilvus() -> Any:
    """Return pymilvus; raise ConfigurationError where it is not installed."""
    # pandas and gRPC come with it: a third of a second, and an extra.
    try:
        import pymilvus
    except ImportError as error:
        raise ConfigurationError(
            "The search in Milvus needs a package that is not installed ({reason}).",
            hint="Run: pip install {requirement}",
            reason=error,
            requirement=_REQUIREMENTS,
        ) from error
    # It writes a traceback for each failure that is told in one sentence here.
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    return pymilvus


def _address(uri: str) -> str:
    """Return host and port; raise ConfigurationError where the address is none or has a secret."""
    address = check_address(uri, URI_SETTING, example="http://milvus:19530")
    if urlsplit(uri).username is not None:
        raise ConfigurationError(
            "{setting} holds a name or a password.",
            hint="Put them into {token_setting}.",
            setting=URI_SETTING,
            token_setting=TOKEN_SETTING,
        )
    return address
