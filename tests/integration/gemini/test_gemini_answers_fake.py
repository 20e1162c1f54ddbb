"""What the faked Gemini answers from stores and files, as the google-genai SDK sees it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from google import genai
from google.genai import errors, types

from tests.fakes.gemini_grounded import LEAD, MAX_REQUEST, NOTHING
from tests.fakes.gemini_server import GeminiServer
from tests.integration.gemini_sdk import TEXT, answered, client_of, made, put, refused


@pytest.fixture
def server() -> Iterator[GeminiServer]:
    with GeminiServer() as server:
        server.files.modes.n_polls = 0
        yield server


@pytest.fixture(params=["v1", "v1beta"])
def sdk(server: GeminiServer, request: pytest.FixtureRequest) -> genai.Client:
    return client_of(server, request.param)


@pytest.fixture
def beta(server: GeminiServer) -> genai.Client:
    return client_of(server, "v1beta")


def test_answers_are_grounded_to_the_byte(server: GeminiServer, sdk: genai.Client) -> None:
    store = made(sdk)
    sdk.operations.get(put(sdk, store, display_name="保固.txt"))
    answer = answered(sdk, "保固期多久？", store)
    assert answer.text == f"{LEAD}保固期為兩年。\n"
    found = answer.candidates[0].grounding_metadata
    context = found.grounding_chunks[0].retrieved_context
    assert (context.title, context.text, context.file_search_store) == ("保固.txt", TEXT, store)
    segment = found.grounding_supports[0].segment
    assert answer.text.encode()[segment.start_index : segment.end_index].decode() == segment.text
    assert segment.part_index is None and segment.start_index == len(LEAD.encode())
    assert found.retrieval_queries is None
    assert answer.usage_metadata.tool_use_prompt_token_count == len(TEXT) // 4


def test_a_stream_carries_its_grounding_in_the_last_chunk(beta: genai.Client) -> None:
    store = made(beta)
    beta.operations.get(put(beta, store))
    tool = types.Tool(file_search=types.FileSearch(file_search_store_names=[store]))
    chunks = list(
        beta.models.generate_content_stream(
            model="m", contents="保固期多久？", config=types.GenerateContentConfig(tools=[tool])
        )
    )
    assert "".join(chunk.text or "" for chunk in chunks) == f"{LEAD}保固期為兩年。\n"
    has = [bool(chunk.candidates and chunk.candidates[0].grounding_metadata) for chunk in chunks]
    assert has == [False, True]


@pytest.mark.parametrize(
    ("wanted", "titles"),
    [
        ('lang = "zh"', {"zh"}),
        ('lang != "zh"', {"en"}),
        ("year > 2020", {"en", "zh"}),
        ("year > 2020 AND year < 2025", {"en"}),
        ('NOT lang = "zh"', {"en"}),
        ('lang = "en" OR lang = "zh"', {"en", "zh"}),
        ('tags = "b"', {"zh"}),
        ('(lang = "en" OR tags = "b") AND year >= 2025', {"zh"}),
        ('none = "x"', set()),
    ],
)
def test_filters_choose_among_documents(beta: genai.Client, wanted: str, titles: set[str]) -> None:
    store = made(beta)
    for lang, year, tags in (("zh", 2025, ["a", "b"]), ("en", 2024, ["a"])):
        metadata = [
            {"key": "lang", "string_value": lang},
            {"key": "year", "numeric_value": year},
            {"key": "tags", "string_list_value": {"values": tags}},
        ]
        beta.operations.get(
            put(beta, store, f"The blue lamp {lang}.", display_name=lang, custom_metadata=metadata)
        )
    answer = answered(beta, "blue lamp", store, metadata_filter=wanted)
    metadata_ = answer.candidates[0].grounding_metadata
    chunks = metadata_.grounding_chunks if metadata_ else []
    assert {chunk.retrieved_context.title for chunk in chunks} == titles


@pytest.mark.parametrize("wanted", ["lang =", "lang ~ x", '(lang = "x"', 'lang = "x" lang', '= "'])
def test_a_filter_that_cannot_be_read_is_refused(beta: genai.Client, wanted: str) -> None:
    store = made(beta)
    with pytest.raises(errors.ClientError) as caught:
        answered(beta, "?", store, metadata_filter=wanted)
    assert refused(caught) == (400, "INVALID_ARGUMENT")


def test_chunks_are_cut_by_white_space_and_top_k_bounds_them(beta: genai.Client) -> None:
    store = made(beta)
    text = " ".join(f"lamp w{n}" for n in range(60))
    rule = {"white_space_config": {"max_tokens_per_chunk": 40, "max_overlap_tokens": 10}}
    beta.operations.get(put(beta, store, text, chunking_config=rule))
    chunks = (
        answered(beta, "lamp", store, top_k=9).candidates[0].grounding_metadata.grounding_chunks
    )
    texts = [chunk.retrieved_context.text for chunk in chunks]
    assert [len(one.split()) for one in texts] == [40, 40, 40, 30]
    assert texts[0].split()[-10:] == texts[1].split()[:10]
    assert all(one in text for one in texts)
    few = answered(beta, "lamp", store, top_k=2).candidates[0].grounding_metadata.grounding_chunks
    assert len(few) == 2


def test_nothing_found_means_no_grounding(beta: genai.Client) -> None:
    answer = answered(beta, "Zebra?", made(beta))
    assert answer.text == NOTHING and answer.candidates[0].grounding_metadata is None


@pytest.mark.parametrize("status", [404, 403])
def test_a_store_that_is_gone_is_an_error_everywhere(
    server: GeminiServer, beta: genai.Client, status: int
) -> None:
    server.files.modes.missing_status = status
    for act in (
        lambda: answered(beta, "?", "fileSearchStores/gone"),
        lambda: put(beta, "fileSearchStores/gone"),
        lambda: beta.file_search_stores.documents.list(parent="fileSearchStores/gone"),
    ):
        with pytest.raises(errors.ClientError) as caught:
            act()
        assert caught.value.code == status


def test_files_sent_along_are_answered_from(server: GeminiServer, beta: genai.Client) -> None:
    config = types.UploadFileConfig(mime_type="text/plain")
    file = beta.files.upload(file=io.BytesIO("保固期為兩年。".encode()), config=config)
    # Bytes whose base64 has both characters of the URL's alphabet.
    png = b"\x89PNG\xfb\xef\xbe\xff"
    contents: Any = [
        types.Part.from_bytes(
            data=b"The warranty lasts two years. Ask us.", mime_type="text/plain"
        ),
        types.Part.from_bytes(data=png, mime_type="image/png"),
        file,
        "保固期 warranty?",
    ]
    answer = beta.models.generate_content(model="m", contents=contents)
    assert answer.text == "The warranty lasts two years. image/png of 8 bytes. 保固期為兩年。 "
    assert b"-" in server.calls[-1].body or b"_" in server.calls[-1].body
    server.files.files[file.name or ""].state = "PROCESSING"
    with pytest.raises(errors.ClientError) as caught:
        beta.models.generate_content(model="m", contents=contents)
    assert refused(caught) == (400, "FAILED_PRECONDITION")
    beta.files.delete(name=file.name or "")
    with pytest.raises(errors.ClientError) as caught:
        beta.models.generate_content(model="m", contents=contents)
    assert refused(caught) == (403, "PERMISSION_DENIED")


def test_a_request_has_a_size(beta: genai.Client) -> None:
    large: Any = [
        types.Part.from_bytes(data=bytes(MAX_REQUEST * 3 // 4), mime_type="text/plain"),
        "?",
    ]
    with pytest.raises(errors.ClientError, match="Request payload size exceeds the limit"):
        beta.models.generate_content(model="m", contents=large)


def test_pictures_are_for_the_second_embedding_model_only(
    server: GeminiServer, beta: genai.Client
) -> None:
    old = made(beta)
    config: Any = {"display_name": "New", "embedding_model": "models/gemini-embedding-2"}
    new = beta.file_search_stores.create(config=config).name or ""
    png = b"\x89PNG lamp"
    for store in (old, new):
        beta.operations.get(put(beta, store, png, mime_type="image/png", display_name="blue lamp"))
    assert beta.file_search_stores.get(name=old).failed_documents_count == 1
    found = answered(beta, "lamp", new).candidates[0].grounding_metadata.grounding_chunks[0]
    context = found.retrieved_context
    assert context.text is None and context.media_id.startswith(f"{new}/media/")
    assert beta.file_search_stores.download_media(media_id=context.media_id) == png
