"""google-genai client, one per process: calls with deadlines, and its failures as our errors."""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from rag.core.deadline import Deadline
from rag.core.errors import ConfigurationError, NotFoundError
from rag.providers.remote.retry import Failure, RetryPolicy, await_with_retry, parse_retry_after
from rag.providers.remote.service import RemoteService, check_address, check_key

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.client import AsyncClient
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


def sdk_errors() -> tuple[type[Exception], ...]:
    """Return all that a call raises for what a server, the network or its time limit does."""
    # Heavy SDK, only where a model is called.
    import httpx2
    from google.genai import errors

    # A body that is not JSON comes out as some kind of ValueError, JSON of another shape as any of
    # these: the SDK looks into it unchecked.
    shapes = (ValueError, KeyError, TypeError, AttributeError)
    return TimeoutError, errors.APIError, httpx2.HTTPError, *shapes


def failure_of(service: RemoteService, error: Exception, timeout_s: float) -> Failure:
    """Return what one of ``sdk_errors`` means for the caller."""
    # Heavy SDK; it is loaded here already, since it raised the error.
    import httpx2
    from google.genai import errors

    if isinstance(error, errors.APIError):
        # The service answers 400, not 401, to a wrong key.
        is_key = any(detail.get("reason") == "API_KEY_INVALID" for detail in _details(error))
        status = 401 if is_key else error.code or 500
        return service.refused(status, error.message, _retry_after_s(error))
    if isinstance(error, (TimeoutError, httpx2.TimeoutException)):
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


T = TypeVar("T")
# What is asked of the SDK, with the config that every call takes: timeout and address.
SdkCall = Callable[["AsyncClient", Any], Awaitable[T]]


@dataclass(frozen=True, slots=True)
class GeminiCaller:
    """How one account is called; ``timeout_s`` bounds a request, a deadline all of them."""

    endpoint: GeminiEndpoint
    service: RemoteService
    retry: RetryPolicy
    timeout_s: float

    async def ask(
        self, act: SdkCall[T], deadline: Deadline, *, gone: str = "", is_repeatable: bool = True
    ) -> T:
        """Return what ``act`` returns, tried again while that may help.

        ``gone`` names what a 404 speaks of, for NotFoundError. What is not ``is_repeatable`` is
        not tried again once it may have been done.
        """

        async def attempt(left_s: float) -> T | Failure:
            outcome = await self.attempt(act, left_s, gone=gone)
            if not isinstance(outcome, Failure) or is_repeatable:
                return outcome
            is_refused = "status" in outcome.error.params
            return replace(outcome, is_transient=outcome.is_transient and is_refused)

        deadline.check()
        return await await_with_retry(self.retry.within(deadline.remaining_s), attempt)

    async def attempt(self, act: SdkCall[T], left_s: float, *, gone: str = "") -> T | Failure:
        """Return what ``act`` returns, or why not; it ends within ``left_s``."""
        # The first call loads the SDK, 1.5 s in which a server's loop must not stand still.
        client = await asyncio.to_thread(self.endpoint.client)
        options = http_options(min(self.timeout_s, left_s), self.endpoint.address)
        try:
            async with asyncio.timeout(left_s):
                return await act(client.aio, {"http_options": options})
        except sdk_errors() as error:
            return self.failure(error, left_s, gone=gone)

    def failure(self, error: Exception, timeout_s: float, *, gone: str = "") -> Failure:
        """Return what an error of the SDK means; ``gone`` as in ``ask``."""
        if gone and _is_gone(error):
            missing = NotFoundError(
                "{service} has no {name}.",
                hint="It was deleted there, or it belongs to another key.",
                service=self.service.name,
                name=gone,
            )
            return Failure(missing)
        return failure_of(self.service, error, timeout_s)


def _is_gone(error: Any) -> bool:
    """Return whether the service says that a thing, not a model or method, is missing."""
    code, message = getattr(error, "code", 0), str(getattr(error, "message", ""))
    if code == 403:
        return "may not exist" in message
    return code == 404 and "API version" not in message and "models/" not in message
