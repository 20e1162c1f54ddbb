"""A question to an answer: whole and in pieces alike, citations looked up, every fault told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, ProviderError, RAGError, UnknownNameError
from rag.core.types import Answer, ChatReply, Citation, RetrievalSettings
from rag.services.access.api_keys import scope_of
from rag.services.answers.question_answering import ask, stream_ask
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish
from tests.fakes.openai_server import OpenAIServer, Script

pytestmark = pytest.mark.django_db
OPERATOR = Scope.operator()
PAGES = (
    "The pump stops at fault E21. Wait 15 minutes until the motor is cool.",
    "阀门漏水时，不得打开水泵。",
)
QUESTION = "How many minutes until the motor is cool?"


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _models(
    monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None, server: OpenAIServer
) -> None:
    use_words_embedder(monkeypatch, settings)
    settings.RAG = {**settings.RAG, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "k"}


@pytest.fixture
def store() -> models.Store:
    store = StoreFactory(is_public=True)
    publish(FileFactory(store=store, name="手册.pdf"), *PAGES, gap=20)
    return store


REMOTE = "openai_compatible:qwen3"


def put(store: models.Store, question: str = QUESTION, **more: Any) -> Answer:
    return ask(question=question, scope=OPERATOR, stores=[store], **more)


async def put_in_pieces(
    store: models.Store, question: str = QUESTION, **more: Any
) -> tuple[list[ChatReply], Answer]:
    pieces: list[Any] = []
    async for piece in stream_ask(question=question, scope=OPERATOR, stores=[store], **more):
        pieces.append(piece)
    *parts, answer = pieces
    assert isinstance(answer, Answer)
    texts = [part for part in parts if isinstance(part, ChatReply)]
    assert "".join(part.text for part in texts) == answer.text
    assert [part for part in parts if isinstance(part, Citation)] == list(answer.citations)
    assert len(texts) + len(answer.citations) == len(parts)
    return texts, answer


def say(server: OpenAIServer, *pieces: str, **more: Any) -> None:
    server.chat = Script(pieces=pieces, **more)


def test_without_a_model_sentences_are_quoted_with_verified_citations(store: models.Store) -> None:
    answer = put(store)
    best = answer.citations[0]
    assert answer.text.startswith("Wait 15 minutes until the motor is cool.[1]")
    assert (best.verdict, best.file_name, best.page) == ("verified", "手册.pdf", 1)
    assert "No chat model is configured" in answer.notice
    assert answer.model == "extractive:sentences"
    assert set(answer.timings_ms) >= {"sql", "embed", "model", "cite"}


def test_a_citation_leads_to_the_canonical_text(store: models.Store) -> None:
    citation = put(store, "阀门漏水时可以打开水泵吗？").citations[0]
    text = models.File.objects.get(pk=citation.file_id).canonical_text
    assert text[citation.char_start : citation.char_end] == citation.found
    assert (citation.found, citation.page) == ("阀门漏水时，不得打开水泵。", 2)


async def test_plain_and_in_pieces_are_the_same_answer(store: models.Store) -> None:
    from asgiref.sync import sync_to_async

    plain = await sync_to_async(put)(store)
    pieces, streamed = await put_in_pieces(store)
    assert (streamed.text, streamed.citations) == (plain.text, plain.citations)
    assert (streamed.model, streamed.notice) == (plain.model, plain.notice)
    assert "<cite" not in "".join(piece.text for piece in pieces)


def test_what_a_model_cites_is_verified(store: models.Store, server: OpenAIServer) -> None:
    say(server, 'You wait <cite doc_id="doc_01" quote="wait 15 minutes">15 minutes</cite>.')
    answer = put(store, model=REMOTE)
    (citation,) = answer.citations
    assert answer.text == "You wait 15 minutes[1]."
    assert (citation.verdict, citation.found, citation.page) == ("verified", "Wait 15 minutes", 1)
    assert (answer.model, answer.notice) == (REMOTE, "")


async def test_a_tag_split_over_pieces_is_read_whole(
    store: models.Store, server: OpenAIServer
) -> None:
    say(
        server,
        "You wait <ci",
        'te doc_id="doc_0',
        '1" quote="wait 15 min',
        'utes">a while</ci',
        "te>.",
    )
    pieces, answer = await put_in_pieces(store, model=REMOTE)
    assert [piece.text for piece in pieces][:2] == ["You wait", " a while"]
    assert answer.text == "You wait a while[1]."
    assert [citation.verdict for citation in answer.citations] == ["verified"]


def test_what_a_model_invents_is_told(store: models.Store, server: OpenAIServer) -> None:
    say(
        server,
        '<cite doc_id="doc_01" quote="Wait 50 minutes until the motor is cool">50</cite>',
        '<cite doc_id="doc_09" quote="The moon is made of cheese">moon</cite>',
        '<cite doc_id="doc_01" quote="不得打开水泵">no</cite>',
    )
    settings = RetrievalSettings(top_k=2)
    answer = put(store, model=REMOTE, settings=settings)
    altered, unknown, wrong = answer.citations
    assert (altered.verdict, altered.distance) == ("altered", 2)
    assert altered.found == "Wait 15 minutes until the motor is cool"
    assert (unknown.verdict, unknown.doc_id, unknown.file_id) == ("unknown", "doc_09", None)
    assert (wrong.verdict, wrong.doc_id) == ("wrong_document", "doc_02")


def test_the_model_sees_rules_sources_and_question(
    store: models.Store, server: OpenAIServer
) -> None:
    put(store, model=REMOTE)
    system, user = server.calls[-1].json["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert "Cite every claim" in system["content"]
    assert PAGES[0] in user["content"]
    assert user["content"].endswith(f"Question: {QUESTION}")
    put(store, "水泵怎么了？", model=REMOTE)
    system, user = server.calls[-1].json["messages"]
    assert "每个论断都要引用" in system["content"]
    assert user["content"].endswith("问题：水泵怎么了？")


def test_the_model_sees_nothing_that_the_caller_may_not_read(server: OpenAIServer) -> None:
    board = GroupFactory()
    store = StoreFactory(is_public=True)
    publish(FileFactory(store=store, restricted=[board]), "The secret pump is red.")
    anyway = store.retrieval_settings.but(unanswerable="answer")
    anonymous = {"question": "pump?", "scope": Scope.anonymous(), "stores": [store]}
    ask(**anonymous, settings=anyway, model=REMOTE)
    assert "secret" not in str(server.calls[-1].json)
    assert ask(**anonymous, model=REMOTE).text == "Nothing relevant was found."
    member = scope_of(UserFactory(groups=[board]))
    ask(question="pump?", scope=member, stores=[store], model=REMOTE)
    assert "secret" in str(server.calls[-1].json)


def test_an_empty_store_is_answered_with_nothing_found(server: OpenAIServer) -> None:
    answer = put(StoreFactory())
    assert (answer.citations, answer.result.hits) == ((), ())
    assert "Nothing relevant was found" in answer.text
    put(StoreFactory(), model=REMOTE)
    assert server.calls == []
    put(StoreFactory(retrieval={"unanswerable": "answer"}), model=REMOTE)
    assert "(no sources were found)" in server.calls[-1].json["messages"][1]["content"]


def test_what_postgres_cannot_keep_is_taken_out_of_an_answer(
    store: models.Store, server: OpenAIServer
) -> None:
    say(server, 'a\0b <cite doc_id="doc_01" quote="Wait\0 15 minutes">c\0</cite>')
    answer = put(store, model=REMOTE)
    assert answer.text == "ab c[1]"
    assert models.QueryLog.objects.get().answer == "ab c[1]"


def test_an_answer_is_logged_once_with_its_citations(store: models.Store) -> None:
    user = UserFactory()
    answer = ask(question=QUESTION, scope=scope_of(user), stores=[store])
    row = models.QueryLog.objects.get()
    assert (row.kind, row.query, row.user_id) == ("ask", QUESTION, user.pk)
    assert (row.answer, row.store_ids) == (answer.text, [store.pk])
    assert row.citations[0]["verdict"] == "verified"
    assert row.citations[0]["quote"] == answer.citations[0].quote


@pytest.mark.parametrize("ending", ["cut", "error", "garbage"])
async def test_a_stream_that_breaks_is_an_error(
    ending: str, store: models.Store, server: OpenAIServer
) -> None:
    from asgiref.sync import sync_to_async

    say(server, "You wait ", ending=ending)
    with pytest.raises(RAGError):
        await put_in_pieces(store, model=REMOTE)
    assert await sync_to_async(models.QueryLog.objects.count)() == 0


def test_a_provider_that_fails_is_an_error_that_says_so(
    store: models.Store, server: OpenAIServer
) -> None:
    server.key = "another"
    with pytest.raises(RAGError) as caught:
        put(store, model=REMOTE)
    assert "another" not in str(caught.value)
    server.key, server.chat = "", Script(html=True)
    with pytest.raises(ProviderError):
        put(store, model=REMOTE)


@pytest.mark.parametrize(
    ("model", "error"),
    [
        ("nobody:x", UnknownNameError),
        ("extractive", InvalidInputError),
        (":", InvalidInputError),
        ("extractive:words", UnknownNameError),
    ],
)
def test_an_unknown_model_is_an_error_that_lists_the_known(
    model: str, error: type[Exception], store: models.Store
) -> None:
    with pytest.raises(error, match=r"extractive|sentences|provider:model"):
        put(store, model=model)


async def test_no_store_and_no_question_are_errors(store: models.Store) -> None:
    with pytest.raises(InvalidInputError, match="No store was chosen"):
        async for _ in stream_ask(question="x", scope=OPERATOR, stores=[]):
            pass
    with pytest.raises(InvalidInputError, match="The query is empty"):
        await put_in_pieces(store, "  ")


def test_the_context_keeps_to_its_budget(store: models.Store, server: OpenAIServer) -> None:
    publish(FileFactory(store=store), *[f"The motor number {n} is cool. " * 20 for n in range(9)])
    put(store, model=REMOTE, settings=RetrievalSettings(top_k=9, context_tokens=200))
    sent = server.calls[-1].json["messages"][1]["content"]
    assert len(sent.split()) < 300


async def test_who_leaves_a_stream_stops_the_model_at_once(
    store: models.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Endless:
        id, has_tools, is_stopped = "endless:x", False, False

        async def stream(self, request: Any) -> Any:
            try:
                while True:
                    yield ChatReply("word ", model=self.id)
            finally:
                self.is_stopped = True

    model = Endless()
    monkeypatch.setattr("rag.services.answers.question_answering.chat_for", lambda **_: model)
    pieces = stream_ask(question=QUESTION, scope=OPERATOR, stores=[store])
    assert isinstance(await anext(pieces), ChatReply)
    await pieces.aclose()  # type: ignore[attr-defined]
    assert model.is_stopped
