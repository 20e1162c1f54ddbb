"""The SDK's HTTP client, for uploads as well. In: requests. Out: answers that the SDK can go by.

An answer to a piece of an upload that lacks its status header would make the SDK send the piece
three more times with pauses of 1, 2 and 4 s, whatever the deadline and whatever went wrong.
"""

from __future__ import annotations

from typing import Any

import httpx2
from google.genai import errors

from rag.providers.remote.http import OneShotAsyncClient


class UploadClient(OneShotAsyncClient):
    """A client that raises the error of a piece at once, as the SDK does for other requests."""

    async def send(self, request: httpx2.Request, *, stream: bool = False, **kwargs: Any) -> Any:
        """Return the response; raise APIError, or RemoteProtocolError for an odd success."""
        response = await super().send(request, stream=stream, **kwargs)
        is_piece = "x-goog-upload-offset" in request.headers
        if is_piece and "x-goog-upload-status" not in response.headers:
            await errors.APIError.raise_for_async_response(response)
            raise httpx2.RemoteProtocolError("a piece of an upload was not acknowledged")
        return response
