"""HTTP transports below the SDK that turn false successes into errors.

The SDK does not look at what a deletion is answered with, takes null and an error's body for an
empty success, and sends a piece of an upload that is not acknowledged three more times, with pauses
of 1, 2 and 4 s, whatever the deadline and whatever went wrong.
"""

from __future__ import annotations

import json
from typing import Any

import httpx2
from google.genai import errors

from rag.providers.remote.http import OneShotAsyncClient, WholeTimeoutClient

STATUS = "x-goog-upload-status"


class SyncClient(WholeTimeoutClient):
    """A client that raises JSONDecodeError for a success that is no answer of the service."""

    def send(self, request: httpx2.Request, *, stream: bool = False, **kwargs: Any) -> Any:
        """Return the response, checked unless it is streamed."""
        response = super().send(request, stream=stream, **kwargs)
        if not stream:
            _check(response)
        return response


class AsyncClient(OneShotAsyncClient):
    """The same for async calls; the error of a piece of an upload is raised at once, as the SDK
    does it for other requests."""

    async def send(self, request: httpx2.Request, *, stream: bool = False, **kwargs: Any) -> Any:
        """Return the response, checked unless it is streamed; raise APIError for a piece."""
        response = await super().send(request, stream=stream, **kwargs)
        if stream:
            return response
        if "x-goog-upload-offset" in request.headers and STATUS not in response.headers:
            await errors.APIError.raise_for_async_response(response)
            if not response.text.lstrip().startswith("<"):
                raise httpx2.RemoteProtocolError("a piece of an upload was not acknowledged")
        _check(response)
        return response


def _check(response: httpx2.Response) -> None:
    # What is no success is the SDK's to read; upload answers speak by their headers.
    if response.status_code != 200 or STATUS in response.headers:
        return
    body = json.loads(response.text)
    if not isinstance(body, dict) or body.keys() == {"error"}:
        raise json.JSONDecodeError("This is no object.", response.text, 0)
