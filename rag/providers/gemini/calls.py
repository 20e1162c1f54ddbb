"""SDK calls for files and stores, with deadlines and our errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from rag.core.deadline import Deadline
from rag.core.errors import NotFoundError
from rag.providers.gemini.client import GeminiEndpoint, call_errors, gemini_failure, http_options
from rag.providers.remote.retry import Failure, RetryPolicy, await_with_retry
from rag.providers.remote.service import RemoteService

if TYPE_CHECKING:
    from google.genai.client import AsyncClient
    from google.genai.types import HttpOptions

T = TypeVar("T")
Act = Callable[["AsyncClient", "HttpOptions"], Awaitable[T]]


@dataclass(frozen=True, slots=True)
class Calls:
    """How one account is called; ``timeout_s`` bounds a request, a deadline all of them."""

    endpoint: GeminiEndpoint
    service: RemoteService
    retry: RetryPolicy
    timeout_s: float

    def policy(self, deadline: Deadline) -> RetryPolicy:
        """Return the tries that a deadline leaves."""
        return replace(self.retry, deadline_s=min(self.retry.deadline_s, deadline.remaining_s))

    async def ask(
        self, act: Act[T], deadline: Deadline, *, gone: str = "", is_repeatable: bool = True
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
        return await await_with_retry(self.policy(deadline), attempt)

    async def attempt(self, act: Act[T], left_s: float, *, gone: str = "") -> T | Failure:
        """Return what ``act`` returns, or why not; it ends within ``left_s``."""
        # The first call loads the SDK, 1.5 s in which a server's loop must not stand still.
        client = await asyncio.to_thread(self.endpoint.client)
        options = http_options(min(self.timeout_s, left_s), self.endpoint.address)
        try:
            async with asyncio.timeout(left_s):
                return await act(client.aio, options)
        except TimeoutError:
            return self.service.timed_out(left_s)
        except call_errors() as error:
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
        return gemini_failure(self.service, error, timeout_s)


def _is_gone(error: Any) -> bool:
    """Return whether the service says that a thing, not a model or method, is missing."""
    code, message = getattr(error, "code", 0), str(getattr(error, "message", ""))
    if code == 403:
        return "may not exist" in message
    return code == 404 and "API version" not in message and "models/" not in message
