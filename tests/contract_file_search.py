"""What everything that keeps files and answers from them keeps to. Subclass it, give it a backend.

The fixture ``file_search`` has stores of its own; whatever it holds before does no harm.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rag.core.deadline import Deadline
from rag.core.documents import ChunkRule
from rag.core.errors import (
    CancelledError,
    DocumentError,
    InvalidInputError,
    NotFoundError,
    ProviderTimeoutError,
)
from rag.core.file_search import (
    FileSearch,
    GroundedAnswer,
    GroundedQuestion,
    RemoteDocument,
    Upload,
)

WARRANTY = "The warranty lasts two years. It covers parts and labour."
LEAVE = "員工每年可以把五天年假結轉到下一年。特別休假須於三月底前使用。"
NAMES = ("guide.txt", "請假辦法 2025.md", "产品手册.notes", "no suffix", "a" * 200 + ".txt")


class FileSearchContract:
    """The FileSearch port. ``wait_s`` is what an upload or an answer may take."""

    wait_s = 20.0

    @pytest.fixture
    def file_search(self) -> FileSearch:
        raise NotImplementedError

    @pytest.fixture
    def store(self, file_search: FileSearch) -> Iterator[str]:
        name = file_search.create_store("Contract 合約").name
        yield name
        file_search.delete_store(name)

    def put(self, file_search: FileSearch, store: str, path: Path, **given: Any) -> RemoteDocument:
        """Upload a file under its own name."""
        upload = Upload(
            **{
                "path": path,
                "display_name": path.name,
                "mime_type": "",
                "rule": ChunkRule(),
                **given,
            }
        )
        return file_search.upload(store, upload, deadline=Deadline(self.wait_s))

    def ask(self, file_search: FileSearch, text: str, *stores: str, **given: Any) -> GroundedAnswer:
        """Return the whole answer of stores."""
        question = GroundedQuestion(text, stores=stores, **given)
        return file_search.answer(question, deadline=Deadline(self.wait_s))

    def test_a_store_is_made_listed_and_deleted(self, file_search: FileSearch) -> None:
        made = file_search.create_store("Handbook 手冊")
        assert made.name.startswith("fileSearchStores/")
        assert made.display_name == "Handbook 手冊"
        found = file_search.get_store(made.name)
        assert (found.name, found.display_name) == (made.name, made.display_name)
        assert (found.n_active, found.n_pending, found.n_failed) == (0, 0, 0)
        assert made.name in [store.name for store in file_search.list_stores()]
        file_search.delete_store(made.name)
        assert made.name not in [store.name for store in file_search.list_stores()]
        with pytest.raises(NotFoundError):
            file_search.get_store(made.name)

    def test_stores_of_one_name_are_two(self, file_search: FileSearch) -> None:
        first, second = file_search.create_store("Twin"), file_search.create_store("Twin")
        assert first.name != second.name
        file_search.delete_store(first.name)
        assert file_search.get_store(second.name).display_name == "Twin"
        file_search.delete_store(second.name)

    def test_a_store_with_documents_can_be_deleted_and_again(
        self, file_search: FileSearch, tmp_path: Path
    ) -> None:
        store = file_search.create_store("Full").name
        self.put(file_search, store, written(tmp_path / "guide.txt", WARRANTY))
        assert file_search.get_store(store).n_active == 1
        file_search.delete_store(store)
        file_search.delete_store(store)
        with pytest.raises(NotFoundError):
            file_search.list_documents(store)

    @pytest.mark.parametrize("name", NAMES, ids=["plain", "chinese", "unknown", "none", "long"])
    def test_a_file_of_any_name_becomes_active_and_is_found(
        self, file_search: FileSearch, store: str, tmp_path: Path, name: str
    ) -> None:
        path = written(tmp_path / "bytes", f"{WARRANTY}\n{LEAVE}\n")
        document = self.put(file_search, store, path, display_name=name)
        assert (document.state, document.display_name) == ("active", name)
        assert document.size_bytes == path.stat().st_size
        assert document.name.startswith(f"{store}/documents/")
        assert [found.name for found in file_search.list_documents(store)] == [document.name]
        for question in ("How long does the warranty last?", "年假可以結轉幾天？"):
            answer = self.ask(file_search, question, store)
            assert answer.text.strip()
            assert {grounding.source for grounding in answer.groundings} == {name}

    def test_groundings_are_stretches_of_the_answer_and_texts_of_the_document(
        self, file_search: FileSearch, store: str, tmp_path: Path
    ) -> None:
        path = written(tmp_path / "both.md", f"{LEAVE}\n\n{WARRANTY}\n")
        self.put(file_search, store, path)
        answer = self.ask(file_search, "年假可以結轉幾天？", store)
        assert answer.groundings and answer.documents
        for grounding in answer.groundings:
            assert grounding.chunk and grounding.chunk in path.read_text(encoding="utf-8")
            assert grounding.store in ("", store)
            if grounding.start is not None:
                assert 0 <= grounding.start < (grounding.end or 0) <= len(answer.text)
        assert {grounding.chunk for grounding in answer.groundings} == set(answer.documents)
        assert len(set(answer.documents)) == len(answer.documents)

    def test_an_empty_store_gives_an_answer_without_groundings(
        self, file_search: FileSearch, store: str
    ) -> None:
        answer = self.ask(file_search, "How long does the warranty last?", store)
        assert answer.text.strip()
        assert answer.groundings == ()
        assert answer.documents == (answer.text,)

    def test_a_deleted_document_is_found_no_more(
        self, file_search: FileSearch, store: str, tmp_path: Path
    ) -> None:
        document = self.put(file_search, store, written(tmp_path / "guide.txt", WARRANTY))
        file_search.delete_document(document.name)
        file_search.delete_document(document.name)
        assert file_search.list_documents(store) == []
        assert file_search.get_store(store).n_active == 0
        assert self.ask(file_search, "How long is the warranty?", store).groundings == ()

    def test_several_stores_answer_together_and_are_told_apart(
        self, file_search: FileSearch, store: str, tmp_path: Path
    ) -> None:
        other = file_search.create_store("Other").name
        self.put(file_search, store, written(tmp_path / "a.txt", "The blue lamp weighs 3 kg."))
        self.put(file_search, other, written(tmp_path / "b.txt", "The blue lamp costs 40 euro."))
        answer = self.ask(file_search, "blue lamp", store, other)
        assert {grounding.source for grounding in answer.groundings} == {"a.txt", "b.txt"}
        only = self.ask(file_search, "blue lamp", other)
        assert {grounding.source for grounding in only.groundings} == {"b.txt"}
        file_search.delete_store(other)

    def test_metadata_come_back_and_filter(
        self, file_search: FileSearch, store: str, tmp_path: Path
    ) -> None:
        texts = {"zh": "The blue lamp glows.", "en": "The blue lamp shines."}
        for lang, text in texts.items():
            path = written(tmp_path / f"{lang}.txt", text)
            metadata = {"lang": lang, "year": 2025, "tags": ["a", lang]}
            assert self.put(file_search, store, path, metadata=metadata).metadata == metadata
        answer = self.ask(
            file_search, "blue lamp", store, metadata_filter='lang = "zh" AND year > 2020'
        )
        assert {grounding.source for grounding in answer.groundings} == {"zh.txt"}
        assert answer.groundings[0].metadata in (
            {},
            {"lang": "zh", "year": 2025, "tags": ["a", "zh"]},
        )

    def test_progress_rises_to_one_in_the_caller_s_thread(
        self, file_search: FileSearch, store: str, tmp_path: Path
    ) -> None:
        told: list[tuple[float, int]] = []
        path = written(tmp_path / "guide.txt", WARRANTY * 100)
        self.put(
            file_search,
            store,
            path,
            on_progress=lambda share: told.append((share, threading.get_ident())),
        )
        shares = [share for share, _ in told]
        assert shares == sorted(shares) and shares[-1] == 1.0 and min(shares) >= 0
        assert {thread for _, thread in told} == {threading.get_ident()}

    def test_an_empty_file_and_an_empty_question_are_refused(
        self, file_search: FileSearch, store: str, tmp_path: Path
    ) -> None:
        with pytest.raises(DocumentError):
            self.put(file_search, store, written(tmp_path / "empty.txt", ""))
        with pytest.raises(InvalidInputError):
            self.ask(file_search, " \n", store)
        assert file_search.list_documents(store) == []

    def test_a_store_that_is_gone_is_said_to_be(
        self, file_search: FileSearch, tmp_path: Path
    ) -> None:
        store = file_search.create_store("Gone").name
        file_search.delete_store(store)
        with pytest.raises(NotFoundError):
            self.put(file_search, store, written(tmp_path / "guide.txt", WARRANTY))
        with pytest.raises(NotFoundError):
            self.ask(file_search, "warranty", store)

    def test_a_deadline_that_is_over_ends_everything_and_leaves_nothing(
        self, file_search: FileSearch, store: str, tmp_path: Path
    ) -> None:
        upload = Upload(written(tmp_path / "g.txt", WARRANTY), "g.txt", "", ChunkRule())
        with pytest.raises(ProviderTimeoutError):
            file_search.upload(store, upload, deadline=Deadline(0.0))
        with pytest.raises(ProviderTimeoutError):
            file_search.answer(GroundedQuestion("warranty", [store]), deadline=Deadline(0.0))
        assert file_search.list_documents(store) == []

    async def test_a_cancelled_deadline_ends_everything_and_leaves_nothing(
        self, file_search: FileSearch, store: str, tmp_path: Path
    ) -> None:
        upload = Upload(written(tmp_path / "g.txt", WARRANTY), "g.txt", "", ChunkRule())
        deadline = Deadline(self.wait_s)
        deadline.cancel()
        with pytest.raises(CancelledError):
            file_search.upload(store, upload, deadline=deadline)
        with pytest.raises(CancelledError):
            file_search.answer(GroundedQuestion("warranty", [store]), deadline=deadline)
        with pytest.raises(CancelledError):
            await pieces_of(file_search.stream(GroundedQuestion("w", [store]), deadline=deadline))
        assert file_search.list_documents(store) == []

    def test_a_callback_that_fails_ends_the_upload_and_leaves_nothing(
        self, file_search: FileSearch, store: str, tmp_path: Path
    ) -> None:
        def refuse(share: float) -> None:
            raise LookupError(share)

        started = time.monotonic()
        with pytest.raises(LookupError):
            self.put(file_search, store, written(tmp_path / "g.txt", WARRANTY), on_progress=refuse)
        assert time.monotonic() - started < self.wait_s
        assert file_search.list_documents(store) == []

    async def test_pieces_make_up_the_whole_and_the_last_carries_the_rest(
        self, file_search: FileSearch, store: str, tmp_path: Path
    ) -> None:
        self.put(file_search, store, written(tmp_path / "guide.txt", f"{WARRANTY}\n{LEAVE}"))
        question = GroundedQuestion("年假可以結轉幾天？", [store])
        stream = file_search.stream(question, deadline=Deadline(self.wait_s))
        *earlier, last = await pieces_of(stream)
        whole = file_search.answer(question, deadline=Deadline(self.wait_s))
        assert "".join(piece.text for piece in [*earlier, last]) == whole.text
        assert all(piece.text and not piece.groundings for piece in earlier)
        assert last.groundings == whole.groundings
        assert (last.documents, last.finish_reason) == (whole.documents, whole.finish_reason)

    async def test_a_stream_may_be_left_early(
        self, file_search: FileSearch, store: str, tmp_path: Path
    ) -> None:
        self.put(file_search, store, written(tmp_path / "guide.txt", WARRANTY))
        question = GroundedQuestion("How long is the warranty?", [store])
        stream = file_search.stream(question, deadline=Deadline(self.wait_s))
        assert (await anext(stream)).text
        await stream.aclose()  # type: ignore[attr-defined]
        again = file_search.stream(question, deadline=Deadline(self.wait_s))
        assert await pieces_of(again)

    def test_threads_do_not_disturb_each_other(
        self, file_search: FileSearch, store: str, tmp_path: Path
    ) -> None:
        paths = [written(tmp_path / f"{n}.txt", f"The lamp {n} is blue.") for n in range(4)]
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda path: self.put(file_search, store, path), paths))
        assert {document.display_name for document in made} == {path.name for path in paths}
        assert len(file_search.list_documents(store)) == 4

    def test_it_shows_no_secret(self, file_search: FileSearch) -> None:
        assert "api_key" not in repr(file_search).lower()


def written(path: Path, text: str) -> Path:
    """Return the path of a new file with this text in UTF-8."""
    path.write_text(text, encoding="utf-8")
    return path


async def pieces_of(stream: AsyncIterator[GroundedAnswer]) -> list[GroundedAnswer]:
    """Return all pieces of a stream."""
    return [piece async for piece in stream]
