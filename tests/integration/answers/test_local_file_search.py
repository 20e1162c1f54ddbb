"""Stores of ours behind the port of file search, indexed meanwhile by another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from rag import models
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.documents import ChunkRule
from rag.core.errors import ForbiddenError, InvalidInputError, NotFoundError
from rag.core.file_search import GroundedQuestion, Upload
from rag.services.access.api_keys import scope_of
from rag.services.wiring import chats
from tests.contract_file_search import LEAVE, WARRANTY, FileSearchContract, pieces_of, written
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, GroupFactory, UserFactory
from tests.integration.answers.local_file_search import LocalFileSearch
from tests.queue_worker import indexing

pytestmark = pytest.mark.django_db(transaction=True)


class OffLoop:
    """The backend, with blocking calls in a thread where the caller's has an event loop."""

    def __init__(self, inner: LocalFileSearch) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return repr(self.inner)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.inner, name)
        if name == "stream":
            return method  # type: ignore[no-any-return]

        def call(*args: Any, **given: Any) -> Any:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                return closing(method, *args, **given)
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(closing, method, *args, **given).result()

        return call


def closing(method: Callable[..., Any], *args: Any, **given: Any) -> Any:
    try:
        return method(*args, **given)
    finally:
        if threading.current_thread() is not threading.main_thread():
            connections.close_all()


@pytest.fixture(autouse=True)
def _indexing(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> Iterator[None]:
    use_words_embedder(monkeypatch, settings)
    # Sentences are weighed by their words alone: hashed words say little about meaning.
    monkeypatch.setattr(chats, "_similarities", lambda question, texts: [1.0] * len(texts))
    with indexing():
        yield


@pytest.fixture
def scope() -> Scope:
    return scope_of(UserFactory())


@pytest.fixture
def file_search(scope: Scope) -> Any:
    return OffLoop(LocalFileSearch(scope))


class TestLocalFileSearch(FileSearchContract):
    @pytest.fixture
    def file_search(self, scope: Scope) -> Any:
        return OffLoop(LocalFileSearch(scope))


def put(scope: Scope, store: str, path: Path, name: str = "a.txt", **given: Any) -> Any:
    rule = given.pop("rule", ChunkRule())
    upload = Upload(path, name, "", rule, **given)
    return LocalFileSearch(scope).upload(store, upload, deadline=Deadline(20))


def test_what_a_scope_may_not_read_does_not_exist(
    file_search: Any, scope: Scope, tmp_path: Path
) -> None:
    store = file_search.create_store("Private").name
    document = put(scope, store, written(tmp_path / "a", WARRANTY))
    stranger = LocalFileSearch(scope_of(UserFactory()))
    assert stranger.list_stores() == []
    for call in (
        lambda: stranger.get_store(store),
        lambda: stranger.list_documents(store),
        lambda: stranger.answer(GroundedQuestion("warranty", [store]), deadline=Deadline(5)),
        lambda: put(stranger.scope, store, tmp_path / "a"),
    ):
        with pytest.raises(NotFoundError, match="There is no store"):
            call()
    stranger.delete_document(document.name)
    stranger.delete_store(store)
    assert file_search.get_store(store).n_active == 1


def test_a_reader_may_ask_and_not_change(scope: Scope, tmp_path: Path) -> None:
    store = LocalFileSearch(scope).create_store("Shared").name
    document = put(scope, store, written(tmp_path / "a", WARRANTY))
    group = GroupFactory()
    models.Store.objects.get(resource_name=store).reader_groups.add(group)
    reader = LocalFileSearch(scope_of(UserFactory(groups=[group])))
    asked = reader.answer(GroundedQuestion("warranty years", [store]), deadline=Deadline(20))
    assert [one.source for one in asked.groundings] == ["a.txt"]
    with pytest.raises(ForbiddenError):
        put(reader.scope, store, written(tmp_path / "b", LEAVE))
    with pytest.raises(ForbiddenError):
        reader.delete_store(store)
    reader.delete_document(document.name)
    assert len(reader.list_documents(store)) == 1


def test_a_restricted_file_answers_only_its_groups(scope: Scope, tmp_path: Path) -> None:
    store = LocalFileSearch(scope).create_store("Shared").name
    put(scope, store, written(tmp_path / "a", WARRANTY))
    readers, few = GroupFactory(), GroupFactory()
    models.Store.objects.get(resource_name=store).reader_groups.add(readers, few)
    models.File.objects.get().restricted_to.add(few)
    question = GroundedQuestion("How long does the warranty last?", [store])
    for group, n in ((readers, 0), (few, 1)):
        backend = LocalFileSearch(scope_of(UserFactory(groups=[group])))
        assert len(backend.list_documents(store)) == n
        answer = backend.answer(question, deadline=Deadline(20))
        assert bool(answer.groundings) == bool(n)
        assert ("two years" in answer.text) == bool(n)


def test_a_rule_of_its_own_cuts_a_file_and_a_new_rule_cuts_it_anew(
    scope: Scope, tmp_path: Path
) -> None:
    store = LocalFileSearch(scope).create_store("Rules").name
    path = written(tmp_path / "a", "\n".join(f"Sentence number {n} is here." for n in range(100)))
    put(scope, store, path)
    coarse = models.Chunk.objects.live().count()
    assert models.File.objects.get().max_tokens_per_chunk is None
    put(scope, store, path, rule=ChunkRule(50, 0))
    file = models.File.objects.get()
    assert (file.max_tokens_per_chunk, file.max_overlap_tokens) == (50, 0)
    fine = models.Chunk.objects.live()
    assert fine.count() > 2 * coarse
    assert max(fine.values_list("token_count", flat=True)) <= 50


def test_the_marks_of_the_model_are_taken_out_and_say_where_claims_stand(
    file_search: Any, scope: Scope, tmp_path: Path
) -> None:
    store = file_search.create_store("Marks").name
    put(scope, store, written(tmp_path / "a", f"{WARRANTY}\n{LEAVE}"))
    answer = file_search.answer(
        GroundedQuestion("How long does the warranty last?", [store]), deadline=Deadline(20)
    )
    assert "<cite" not in answer.text and "[1]" not in answer.text
    first = answer.groundings[0]
    assert answer.text[first.start : first.end] == "The warranty lasts two years."
    assert (first.verdict, first.store, first.source) == ("verified", store, "a.txt")
    assert first.document == f"{store}/documents/{models.File.objects.get().pk}"
    assert answer.model == "extractive:sentences" and "No chat model" in answer.notice
    log = models.QueryLog.objects.get()
    assert log.answer == answer.text and log.citations[0]["verdict"] == "verified"


@pytest.mark.parametrize("wrong", ["lang =", "((", 'x = "', "lang ~ 3"])
def test_a_filter_that_cannot_be_read_is_refused(file_search: Any, wrong: str) -> None:
    store = file_search.create_store("Filter").name
    question = GroundedQuestion("lamp", [store], metadata_filter=wrong)
    with pytest.raises(InvalidInputError, match="filter cannot be read"):
        file_search.answer(question, deadline=Deadline(5))


async def test_a_stream_without_a_hit_says_so_and_ends(file_search: Any) -> None:
    store = file_search.create_store("Empty").name
    question = GroundedQuestion("年假可以結轉幾天？", [store])
    pieces = await pieces_of(file_search.stream(question, deadline=Deadline(10)))
    assert "".join(piece.text for piece in pieces) == "没有找到相关内容。"
    assert pieces[-1].groundings == () and pieces[-1].finish_reason == "stop"


def test_an_upload_that_fails_takes_back_its_own_document_and_no_other(
    scope: Scope, tmp_path: Path
) -> None:
    store = LocalFileSearch(scope).create_store("Shared").name
    row = models.Store.objects.get(resource_name=store)
    other = "0" * 64

    def fail(share: float) -> None:
        # Somebody else's document of that very name came in meanwhile.
        FileFactory(store=row, name="b.txt", sha256=other)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        put(scope, store, written(tmp_path / "a", WARRANTY), "folder/b.txt", on_progress=fail)
    assert list(row.files.values_list("name", "sha256")) == [("b.txt", other)]
