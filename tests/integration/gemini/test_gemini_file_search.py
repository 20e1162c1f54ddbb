"""Gemini's stores over the google-genai SDK: the contract, and answers with their grounding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError, ProviderError
from rag.core.file_search import FileSearch, GroundedAnswer
from rag.providers.gemini.file_search import GeminiFileSearch
from tests.contract_file_search import FileSearchContract, pieces_of
from tests.fakes.gemini_grounded import LEAD, NOTHING
from tests.fakes.gemini_server import GeminiServer, Script, camel
from tests.integration.gemini_world import (
    KEY,
    LEAVE,
    WARRANTY,
    ask,
    backend,
    filled_store,
    upload_of,
)


@pytest.fixture
def server() -> Iterator[GeminiServer]:
    with GeminiServer() as server:
        server.key = KEY
        yield server


@pytest.fixture
def search(server: GeminiServer) -> GeminiFileSearch:
    return backend(server)


class TestContract(FileSearchContract):
    wait_s = 5.0

    @pytest.fixture
    def file_search(self, server: GeminiServer) -> FileSearch:
        return backend(server)


def whole(search: GeminiFileSearch, store: str, text: str, **given: Any) -> GroundedAnswer:
    return search.answer(ask(store, text, **given), deadline=Deadline(5.0))


def test_more_than_a_page_of_stores_and_documents_is_listed(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path
) -> None:
    stores = [search.create_store(f"Store {n}").name for n in range(41)]
    assert [found.name for found in search.list_stores()] == stores
    for n in range(23):
        search.upload(stores[0], upload_of(tmp_path / f"{n:02}.txt"), deadline=Deadline(5.0))
    found = search.list_documents(stores[0])
    assert [document.display_name for document in found] == [f"{n:02}.txt" for n in range(23)]
    assert max(int(call.query.get("pageSize", 0)) for call in server.calls) == 20


def test_the_question_goes_with_its_stores_top_k_and_filter(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path
) -> None:
    store = filled_store(search, tmp_path, a=WARRANTY)
    question = ask(store, "保固?", top_k=7, metadata_filter='lang = "zh"', model="gemini-9")
    search.answer(question, deadline=Deadline(5.0))
    call = server.calls[-1]
    body = camel(call.json)
    assert call.path == "/v1beta/models/gemini-9:generateContent"
    assert body["tools"] == [
        {
            "fileSearch": {
                "fileSearchStoreNames": [store],
                "topK": 7,
                "metadataFilter": 'lang = "zh"',
            }
        }
    ]
    assert body["contents"] == [{"role": "user", "parts": [{"text": "保固?"}]}]
    search.answer(ask(store), deadline=Deadline(5.0))
    assert camel(server.calls[-1].json)["tools"] == [
        {"fileSearch": {"fileSearchStoreNames": [store]}}
    ]


def test_an_answer_says_what_it_used_and_what_it_cost(
    search: GeminiFileSearch, tmp_path: Path
) -> None:
    store = filled_store(search, tmp_path, warranty=WARRANTY, leave=LEAVE)
    answer = whole(search, store, "年假可以結轉幾天？")
    sentence = "員工每年可以把五天年假結轉到下一年。"
    assert answer.text == f"{LEAD}{sentence}\n"
    (grounding,) = answer.groundings
    assert (grounding.source, grounding.chunk, grounding.store) == ("leave.txt", LEAVE, store)
    assert answer.text[grounding.start : grounding.end] == sentence
    assert answer.documents == (LEAVE,)
    assert (answer.model, answer.finish_reason) == ("gemini:gemini-2.5-flash", "stop")
    # What the tool retrieved is paid for as input.
    assert (answer.input_tokens, answer.output_tokens) == (7 + len(LEAVE) // 4, 1)
    assert answer.notice == ""


@pytest.mark.parametrize("mode", ["full", "broken", "far"])
@pytest.mark.parametrize("n_parts", [1, 2, 3])
async def test_spans_are_right_in_parts_and_pieces_even_where_the_offsets_are_not(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path, n_parts: int, mode: str
) -> None:
    store = filled_store(
        search,
        tmp_path,
        a="保固 lamp 兩年，含零件 😀。",
        b="保固 lamp 不含人為損壞。",
        c="保固 lamp warranty ends in 2027.",
    )
    server.files.modes.n_parts, server.files.modes.grounding = n_parts, mode
    question = ask(store, "保固 lamp", top_k=3)
    answer = search.answer(question, deadline=Deadline(5.0))
    *_, last = await pieces_of(search.stream(question, deadline=Deadline(5.0)))
    text = "".join([piece.text async for piece in search.stream(question, deadline=Deadline(5.0))])
    assert len(answer.groundings) == len(last.groundings) == 3
    for shown, groundings in ((answer.text, answer.groundings), (text, last.groundings)):
        for grounding in groundings:
            if mode == "far":
                # No text and no place: the chunk alone is known.
                assert grounding.start is None
            else:
                assert shown[grounding.start : grounding.end] == grounding.chunk


def test_thoughts_before_the_answer_do_not_move_its_spans(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path
) -> None:
    store = filled_store(search, tmp_path, leave=LEAVE)
    server.chat = Script(thoughts=("嗯，先想想。",))
    answer = whole(search, store, "年假可以結轉幾天？")
    (grounding,) = answer.groundings
    assert answer.text.startswith(LEAD)
    assert answer.text[grounding.start : grounding.end] in LEAVE


@pytest.mark.parametrize(
    ("mode", "sources", "n_documents"),
    [
        ("none", [], 1),
        ("empty", [], 1),
        ("no_supports", ["a.txt", "b.txt"], 2),
        ("no_texts", ["a.txt", "b.txt"], 1),
    ],
)
def test_what_the_grounding_lacks_is_left_out(
    server: GeminiServer,
    search: GeminiFileSearch,
    tmp_path: Path,
    mode: str,
    sources: list[str],
    n_documents: int,
) -> None:
    store = filled_store(search, tmp_path, a="The blue lamp weighs 3 kg.", b="The blue lamp glows.")
    server.files.modes.grounding = mode
    answer = whole(search, store, "blue lamp")
    assert [grounding.source for grounding in answer.groundings] == sources
    assert len(answer.documents) == n_documents
    if mode == "no_supports":
        assert {grounding.start for grounding in answer.groundings} == {None}
    else:
        assert answer.documents == (answer.text,)
    if mode == "no_texts":
        assert {grounding.chunk for grounding in answer.groundings} == {""}
        assert all(grounding.start is not None for grounding in answer.groundings)


def test_a_chunk_without_a_title_is_named_by_its_store(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path
) -> None:
    store = filled_store(search, tmp_path, a=WARRANTY)
    server.files.modes.grounding = "no_titles"
    assert [found.source for found in whole(search, store, "warranty").groundings] == [store]


def test_a_question_that_no_document_answers_gets_an_answer_without_groundings(
    search: GeminiFileSearch, tmp_path: Path
) -> None:
    store = filled_store(search, tmp_path, a=WARRANTY)
    answer = whole(search, store, "Zebra migration?")
    assert (answer.text, answer.groundings, answer.documents) == (NOTHING, (), (NOTHING,))


def test_one_chunk_may_carry_two_stretches_and_one_stretch_two_chunks(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path
) -> None:
    def respond(asked: dict[str, Any]) -> Script:
        chunks = [
            {"retrievedContext": {"title": "a.pdf", "text": "甲", "pageNumber": 3}},
            {"retrievedContext": {"title": "b.pdf", "text": "乙"}},
        ]
        supports = [
            {"segment": {"endIndex": 6}, "groundingChunkIndices": [0]},
            {"segment": {"startIndex": 6, "endIndex": 12}, "groundingChunkIndices": [1, 0, 9]},
        ]
        extra = {"groundingMetadata": {"groundingChunks": chunks, "groundingSupports": supports}}
        return Script(pieces=("一二三四",), extra=extra)

    server.respond = respond
    answer = whole(search, "fileSearchStores/x", "?")
    found = [(one.source, one.page, one.start, one.end) for one in answer.groundings]
    assert found == [("a.pdf", 3, 0, 2), ("a.pdf", 3, 2, 4), ("b.pdf", None, 2, 4)]
    assert answer.documents == ("甲", "乙")


def test_pages_of_a_pdf_and_pictures_come_back(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path
) -> None:
    pdf = b"".join(
        [
            b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n",
            b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n",
            b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Contents 4 0 R",
            b"/Resources<</Font<</F1 5 0 R>>>>>>endobj\n",
            b"4 0 obj<</Length 58>>stream\nBT /F1 12 Tf 20 200 Td (The purple kettle whistles.) Tj ET\nendstream endobj\n",
            b"5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n",
        ]
    )
    store = search.create_store("Mixed").name
    server.files.stores[store].embedding_model = "models/gemini-embedding-2"
    search.upload(store, upload_of(tmp_path / "kettle.pdf", pdf), deadline=Deadline(5.0))
    picture = upload_of(tmp_path / "purple kettle photo.png", b"\x89PNG\r\n\x1a\n" + bytes(20))
    search.upload(store, picture, deadline=Deadline(5.0))
    answer = whole(search, store, "purple kettle")
    found = {(one.source, one.page, one.chunk) for one in answer.groundings}
    assert found == {
        ("kettle.pdf", 1, "The purple kettle whistles."),
        ("purple kettle photo.png", None, ""),
    }
    assert answer.documents == ("The purple kettle whistles.",)


def test_a_filter_that_cannot_be_read_is_the_service_s_to_refuse(
    search: GeminiFileSearch, tmp_path: Path
) -> None:
    store = filled_store(search, tmp_path, a=WARRANTY)
    with pytest.raises(ProviderError, check=lambda e: "Invalid metadata filter" in e.detail):
        whole(search, store, "warranty", metadata_filter="lang =")
    with pytest.raises(InvalidInputError, match="top_k is 0"):
        whole(search, store, "warranty", top_k=0)
