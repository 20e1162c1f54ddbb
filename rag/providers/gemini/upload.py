"""Upload of one file into a File Search store, cleaned up after a failure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError, NotFoundError, RAGError
from rag.core.file_search import Upload
from rag.providers.gemini.calls import Calls
from rag.providers.gemini.listing import marked_document
from rag.providers.gemini.resources import MARK, MAX_METADATA, check_display_name, check_name
from rag.providers.gemini.sending import MeteredFile, check_size
from rag.providers.gemini.within import Tell
from rag.providers.remote.retry import Failure, await_with_retry
from rag.stages.detect.mime_type import mime_type_of

if TYPE_CHECKING:
    from google.genai.client import AsyncClient
    from google.genai.types import HttpOptions, UploadToFileSearchStoreOperation

# What is left of the progress is the indexing, which tells nothing of its own.
SENT_SHARE = 0.8


@dataclass(slots=True)
class Trip:
    """An upload and how far it came: ``document`` and ``operation`` once Gemini named them."""

    store: str
    upload: Upload
    mime_type: str
    size: int
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    is_begun: bool = False
    operation: str = ""
    document: str = ""


def prepare_trip(store: str, upload: Upload, max_mb: int) -> Trip:
    """Return what is to be sent, all of it checked; raises before anything is."""
    check_name(store)
    check_display_name(upload.display_name)
    _check_metadata(upload.metadata)
    size = check_size(upload.path, upload.display_name, max_mb)
    mime_type = upload.mime_type or mime_type_of(upload.path, upload.display_name)
    return Trip(store, upload, mime_type, size)


async def send_trip(calls: Calls, trip: Trip, deadline: Deadline, say: Tell) -> None:
    """Send the bytes, again from the start if need be; after it the operation or document is known.

    An answer that was lost may hide a success: before each further try the document is looked for.
    """

    def tell_sent(n_bytes: int) -> None:
        trip.is_begun = True
        say(SENT_SHARE * min(1.0, n_bytes / trip.size))

    async def send(client: AsyncClient, options: HttpOptions) -> UploadToFileSearchStoreOperation:
        config: Any = {**_config(trip), "http_options": options}
        with MeteredFile(trip.upload.path, tell_sent) as file:
            return await client.file_search_stores.upload_to_file_search_store(
                file_search_store_name=trip.store, file=file, config=config
            )

    async def attempt(left_s: float) -> bool | Failure:
        if trip.is_begun:
            found = await marked_document(calls, trip.store, trip.mark, deadline)
            if found is not None:
                trip.document = found.name or ""
                return True
        outcome = await calls.attempt(send, left_s, gone=trip.store)
        if isinstance(outcome, Failure):
            return outcome
        trip.operation = outcome.name or ""
        return True

    deadline.check()
    await await_with_retry(calls.policy(deadline), attempt)
    say(SENT_SHARE)


async def take_back(calls: Calls, trip: Trip, deadline: Deadline) -> str:
    """Delete what a failed upload left at Gemini; return what could not be, empty for nothing."""
    try:
        if not trip.document:
            found = await marked_document(calls, trip.store, trip.mark, deadline)
            trip.document = (found.name or "") if found is not None else ""
        if trip.document:
            await delete_document(calls, trip.document, deadline)
            return ""
    except NotFoundError:
        return ""
    except RAGError:
        return trip.document or f"{trip.store}: {trip.upload.display_name}"
    # Accepted, and yet not to be seen: it will come.
    return trip.operation


async def delete_document(calls: Calls, name: str, deadline: Deadline) -> None:
    """Delete a document with its chunks; raise NotFoundError when it is gone."""

    async def act(client: AsyncClient, options: HttpOptions) -> None:
        config: Any = {"force": True, "http_options": options}
        await client.file_search_stores.documents.delete(name=name, config=config)

    await calls.ask(act, deadline, gone=name)


def _config(trip: Trip) -> dict[str, Any]:
    rule = trip.upload.rule
    return {
        "display_name": trip.upload.display_name,
        "mime_type": trip.mime_type,
        "custom_metadata": [
            *(_entry(key, value) for key, value in trip.upload.metadata.items()),
            {"key": MARK, "string_value": trip.mark},
        ],
        "chunking_config": {
            "white_space_config": {
                "max_tokens_per_chunk": rule.max_tokens,
                "max_overlap_tokens": rule.effective_overlap,
            }
        },
    }


def _entry(key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"key": key, "string_value": value}
    if isinstance(value, (int, float)):
        return {"key": key, "numeric_value": value}
    return {"key": key, "string_list_value": {"values": list(value)}}


def _check_metadata(metadata: Mapping[str, Any]) -> None:
    if len(metadata) > MAX_METADATA:
        raise InvalidInputError(
            "{n_keys} metadata are too many for Gemini.",
            hint="Allowed: {most}.",
            n_keys=len(metadata),
            most=MAX_METADATA,
        )
    for key, value in metadata.items():
        is_list = isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
        is_scalar = isinstance(value, (str, int, float)) and not isinstance(value, bool)
        if not key.strip() or key == MARK or not (is_list or is_scalar):
            raise InvalidInputError(
                "Gemini cannot keep the metadata “{key}”.",
                hint="Values are text, numbers or lists of text, keys not {mark}.",
                key=key,
                mark=MARK,
            )
