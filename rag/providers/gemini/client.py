"""google-genai client, one per process, and its failures as our errors."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rag.core.errors import ConfigurationError
from rag.providers.remote.retry import Failure, parse_retry_after
from rag.providers.remote.service import RemoteService, check_address, check_key

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.errors import APIError
    from google.genai.types import HttpOptions

KEY_SETTING = "GEMINI_API_KEY"
URL_SETTING = "GEMINI_BASE_URL"
VERSION_SETTING = "GEMINI_API_VERSION"
DEFAULT_URL = "https://generativelanguage.googleapis.com/"
API_VERSIONS = ("v1", "v1beta", "v1alpha")


@dataclass(frozen=True, slots=True)
class GeminiEndpoint:
    """The key and where to use it; another address is a proxy or a test's server."""

    api_key: str = field(repr=False)
    base_url: str = ""
    api_version: str = "v1beta"

    def __post_init__(self) -> None:
        if not self.api_key.strip():
            raise ConfigurationError(
                "No key for Gemini is set.", hint="Set {setting}.", setting=KEY_SETTING
            )
        check_key(self.api_key, KEY_SETTING)
        if self.base_url:
            check_address(self.base_url, URL_SETTING)
        if self.api_version not in API_VERSIONS:
            raise ConfigurationError(
                "{setting} is “{value}”.",
                hint="Known: {known}.",
                setting=VERSION_SETTING,
                value=self.api_version,
                known=", ".join(API_VERSIONS),
            )

    @property
    def address(self) -> str:
        """Return the base URL that is called."""
        return self.base_url or DEFAULT_URL

    def service(self, model: str) -> RemoteService:
        """Return how errors name Gemini and ``model``."""
        name = (
            f"Gemini at {check_address(self.base_url, URL_SETTING)}" if self.base_url else "Gemini"
        )
        return RemoteService(name, model, KEY_SETTING, URL_SETTING, self.api_key.strip())

    def client(self) -> Client:
        """Return this process's client; it costs about 110 ms once."""
        return _client_of(os.getpid(), self)


def http_options(timeout_s: float, base_url: str | None = None) -> HttpOptions:
    """Return the options of one call; without a timeout the SDK waits for ever.

    Uploads need ``base_url``: without it the SDK sends the bytes past a proxy, to the very host
    that the service names.
    """
    # Heavy SDK: 1.5 s and 52 MB, only where a model is called.
    from google.genai.types import HttpOptions

    # The SDK counts in milliseconds.
    return HttpOptions(timeout=max(1, math.ceil(timeout_s * 1000)), base_url=base_url)


def call_errors() -> tuple[type[Exception], ...]:
    """Return all that a call of the SDK raises for what a server or the network does."""
    # Heavy SDK, only where a model is called.
    import httpx2
    from google.genai import errors

    # A body that is not JSON comes out as some kind of ValueError, JSON of another shape as any of
    # these: the SDK looks into it unchecked.
    shapes = (ValueError, KeyError, TypeError, AttributeError)
    return errors.APIError, httpx2.HTTPError, *shapes


def gemini_failure(service: RemoteService, error: Exception, timeout_s: float) -> Failure:
    """Return what one of ``call_errors`` means for the caller."""
    # Heavy SDK; it is loaded here already, since it raised the error.
    import httpx2
    from google.genai import errors

    if isinstance(error, errors.APIError):
        # The service answers 400, not 401, to a wrong key.
        is_key = any(detail.get("reason") == "API_KEY_INVALID" for detail in _details(error))
        status = 401 if is_key else error.code or 500
        return service.refused(status, error.message, _retry_after_s(error))
    if isinstance(error, httpx2.TimeoutException):
        return service.timed_out(timeout_s)
    if isinstance(error, httpx2.HTTPError):
        return service.unreachable(str(error) or type(error).__name__)
    if isinstance(error, json.JSONDecodeError):
        return service.unreadable(error.doc or "nothing")
    # Thus an event that cannot be read is quoted.
    return service.unreadable(str(error).rpartition("Raw response: ")[2])


def _details(error: APIError) -> list[Mapping[str, Any]]:
    body = error.details
    inner = body.get("error", body) if isinstance(body, Mapping) else {}
    found = inner.get("details") if isinstance(inner, Mapping) else None
    return [detail for detail in found or [] if isinstance(detail, Mapping)]


def _retry_after_s(error: APIError) -> float | None:
    """Return the seconds of google.rpc.RetryInfo ("17s"), or of the Retry-After header."""
    wishes = [str(detail.get("retryDelay", "")).removesuffix("s") for detail in _details(error)]
    wishes.append(getattr(error.response, "headers", {}).get("retry-after", ""))
    return next(
        (wait_s for wish in wishes if (wait_s := parse_retry_after(wish)) is not None), None
    )


@lru_cache(maxsize=16)
def _client_of(pid: int, endpoint: GeminiEndpoint) -> Client:
    # Heavy SDK: 1.5 s and 52 MB, only where a model is called.
    import httpx2
    from google import genai

    # Built on httpx2, as heavy.
    from rag.providers.gemini.sdk_clients import AsyncClient, SyncClient

    base_url = endpoint.address
    context = httpx2.create_ssl_context()
    return genai.Client(
        # The environment could turn it into a Vertex client, or send it elsewhere.
        vertexai=False,
        api_key=endpoint.api_key.strip(),
        http_options=genai.types.HttpOptions(
            base_url=base_url,
            api_version=endpoint.api_version,
            # Own clients also keep the SDK from aiohttp, which it prefers once that is installed.
            httpx_client=SyncClient(base_url, context),
            httpx_async_client=AsyncClient(base_url, context),
        ),
    )
