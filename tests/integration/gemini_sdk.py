"""The google-genai SDK by itself before a faked Gemini, with the calls that tests make of it."""

from __future__ import annotations

import io
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import errors, types

from tests.fakes.gemini_server import GeminiServer

TEXT = "The warranty lasts two years. It covers parts.\n保固期為兩年。人為損壞不在保固範圍內。"


def client_of(server: GeminiServer, version: str) -> genai.Client:
    plain = httpx2.Client(trust_env=False, timeout=10.0)
    options = types.HttpOptions(base_url=server.url, api_version=version, httpx_client=plain)
    return genai.Client(vertexai=False, api_key=server.key, http_options=options)


def made(sdk: genai.Client, display_name: str = "Store") -> str:
    store = sdk.file_search_stores.create(config={"display_name": display_name})
    return store.name or ""


def put(sdk: genai.Client, store: str, data: str | bytes = TEXT, **config: Any) -> Any:
    raw = data if isinstance(data, bytes) else data.encode()
    given: Any = {"mime_type": "text/plain", "display_name": "a.txt", **config}
    return sdk.file_search_stores.upload_to_file_search_store(
        file_search_store_name=store, file=io.BytesIO(raw), config=given
    )


def answered(sdk: genai.Client, question: str, *stores: str, **search: Any) -> Any:
    tool = types.Tool(file_search=types.FileSearch(file_search_store_names=list(stores), **search))
    config = types.GenerateContentConfig(tools=[tool])
    return sdk.models.generate_content(model="m", contents=question, config=config)


def refused(caught: pytest.ExceptionInfo[errors.APIError]) -> tuple[int | None, str | None]:
    return caught.value.code, caught.value.status
