"""openai client, one per process and endpoint, and its failures as our errors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from rag.core.errors import ConfigurationError
from rag.providers.remote.retry import Failure, parse_retry_after
from rag.providers.remote.service import RemoteService, check_address, check_key

if TYPE_CHECKING:
    from openai import AsyncOpenAI, Omit, OpenAI, OpenAIError

KEY_SETTING = "RAG_OPENAI_API_KEY"
URL_SETTING = "RAG_OPENAI_BASE_URL"
DEFAULT_URL = "https://api.openai.com/v1"
PASTED_ENDINGS = ("/embeddings", "/chat/completions", "/completions", "/responses")


@dataclass(frozen=True, slots=True)
class OpenAIEndpoint:
    """Where a server listens and the key it wants; a server of one's own may want none.

    ``key_setting`` and ``url_setting`` are where both were said, for the hints of errors.
    """

    base_url: str = ""
    api_key: str = field(default="", repr=False)
    key_setting: str = KEY_SETTING
    url_setting: str = URL_SETTING

    @classmethod
    def checked(cls, base_url: str, api_key: str, setting: str = "") -> OpenAIEndpoint:
        """Return the endpoint; raise ConfigurationError naming the setting that is wrong.

        ``setting`` is the one that says address and key, where these are not the usual two.
        """
        key_setting, url_setting = (setting, setting) if setting else (KEY_SETTING, URL_SETTING)
        url = base_url.strip().rstrip("/")
        key = check_key(api_key, key_setting)
        if not url and not key:
            raise ConfigurationError(
                "No key for OpenAI is set.",
                hint="Set {key_setting}, or set {url_setting} to a server that needs no key.",
                key_setting=key_setting,
                url_setting=url_setting,
            )
        if url:
            check_address(url, url_setting)
        ending = next((ending for ending in PASTED_ENDINGS if url.endswith(ending)), "")
        if ending:
            raise ConfigurationError(
                "{setting} ends in {ending}.",
                hint="Leave that part out: it is added here.",
                setting=url_setting,
                ending=ending,
            )
        return cls(url or DEFAULT_URL, key, key_setting, url_setting)

    def service(self, model: str) -> RemoteService:
        """Return how errors name this endpoint and ``model``."""
        name = check_address(self.base_url, self.url_setting)
        return RemoteService(name, model, self.key_setting, self.url_setting, self.api_key)

    def headers(self) -> Mapping[str, str | Omit]:
        """Return what to change in a request's headers."""
        # Heavy SDK: 0.5 s and 49 MB, only where a model is called.
        import openai

        # The SDK insists on a key; some servers that need none refuse a made-up one.
        return {} if self.api_key else {"Authorization": openai.Omit()}

    def clients(self) -> tuple[OpenAI, AsyncOpenAI]:
        """Return this process's clients for plain calls and for streams."""
        return _clients_of(os.getpid(), self)


def openai_failure(service: RemoteService, error: OpenAIError, timeout_s: float) -> Failure:
    """Return what an exception of the SDK means for the caller."""
    # The SDK takes 0.5 s and 49 MB; it is loaded here already, since it raised the error.
    import openai

    if isinstance(error, openai.APITimeoutError):
        return service.timed_out(timeout_s)
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__
        return service.unreachable(str(cause) or type(cause).__name__)
    if isinstance(error, openai.APIStatusError):
        retry_after_s = _retry_after_s(error.response.headers)
        failure = service.refused(error.status_code, _reason(error.body), retry_after_s)
        if error.code == "insufficient_quota":
            # OpenAI's 429 for an empty account: no waiting helps.
            return Failure(failure.error)
        return failure
    if isinstance(error, openai.APIError):
        return service.unreachable(f"the stream reported “{_reason(error.body)}”")
    return service.unreadable(error)


def _reason(body: object) -> object:
    # OpenAI nests {"error": {"message"}}, which the SDK unpacks; others send {"detail": ...}.
    if isinstance(body, Mapping):
        nested = body.get("error", body)
        if isinstance(nested, Mapping):
            return nested.get("message") or nested.get("detail") or nested
        return nested
    return body


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of Retry-After (RFC 9110 section 10.2.3), or of its usual ms form."""
    with contextlib.suppress(ValueError):
        return float(headers.get("retry-after-ms", "")) / 1000.0
    return parse_retry_after(headers.get("retry-after", ""))


@lru_cache(maxsize=16)
def _clients_of(pid: int, endpoint: OpenAIEndpoint) -> tuple[OpenAI, AsyncOpenAI]:
    # Heavy SDK: 0.5 s and 49 MB, only where a model is called.
    import httpx2
    import openai

    # Built on httpx2, as heavy.
    from rag.providers.remote.http import OneShotAsyncClient, WholeTimeoutClient

    context = httpx2.create_ssl_context()
    plain = openai.OpenAI(
        api_key=endpoint.api_key or "-",
        base_url=endpoint.base_url,
        max_retries=0,
        http_client=WholeTimeoutClient(endpoint.base_url, context),
    )
    streaming = openai.AsyncOpenAI(
        api_key=endpoint.api_key or "-",
        base_url=endpoint.base_url,
        max_retries=0,
        http_client=OneShotAsyncClient(endpoint.base_url, context),
    )
    for client in (plain, streaming):
        # Only the settings read the environment; the SDK takes these from there.
        client.organization = client.project = None
    return plain, streaming
