"""Static files: WhiteNoise's middleware for sync and async requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from whitenoise.middleware import WhiteNoiseMiddleware


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # WhiteNoise has no types
    """WhiteNoise itself is sync: it would hold a thread for each request until its answer begins,
    and stand between a client that leaves and the view that should hear of it."""

    sync_capable = async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        super().__init__(get_response)
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        """Return the file of an address, else what comes after this."""
        found: Any = super().__call__(request)
        return _awaited(found) if iscoroutinefunction(self) else found


async def _awaited(found: Any) -> HttpResponseBase:
    response: HttpResponseBase = await found if isawaitable(found) else found
    return response
