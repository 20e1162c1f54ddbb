"""Files sent along with a question to Gemini: inline or through the Files API, nothing stays."""

from __future__ import annotations

import asyncio
import base64
import io
import logging
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag.core.deadline import Deadline
from rag.core.documents import ParsedDocument
from rag.core.errors import (
    CancelledError,
    DocumentError,
    LimitError,
    ProviderError,
    ProviderTimeoutError,
)
from rag.core.file_search import GroundedAnswer, GroundedQuestion, Grounding, InlineFile
from rag.providers.gemini.file_search import GeminiFileSearch
from rag.providers.sandbox.parser import SandboxedParser
from tests.contract_file_search import pieces_of
from tests.fakes.gemini_server import GeminiServer, Script, camel, error
from tests.fakes.gemini_wire import parts_of
from tests.fakes.loopback import Fault
from tests.integration.gemini_world import KEY, LEAVE, WARRANTY, act_when, backend, sent_file, told

MB = 1024 * 1024
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
QUESTION = "How long does the warranty last?"


@pytest.fixture
def server() -> Iterator[GeminiServer]:
    with GeminiServer() as server:
        server.key = KEY
        yield server


@pytest.fixture
def search(server: GeminiServer) -> GeminiFileSearch:
    return backend(server)


@pytest.fixture
def remote(server: GeminiServer) -> GeminiFileSearch:
    """One that sends everything but a few bytes through the Files API."""
    return backend(server, inline_bytes=10)


def ask(search: GeminiFileSearch, *files: InlineFile, wait_s: float = 5.0) -> GroundedAnswer:
    return search.answer(GroundedQuestion(QUESTION, files=files), deadline=Deadline(wait_s))


def asked(server: GeminiServer) -> list[dict[str, Any]]:
    """Return the parts of the last question to the model."""
    calls = [call for call in server.calls if "enerateContent" in call.path]
    return parts_of(camel(calls[-1].json))


def test_small_files_go_inside_the_request_in_their_order(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path
) -> None:
    files = [sent_file(tmp_path / "保固.md", WARRANTY), sent_file(tmp_path / "p.png", PNG)]
    answer = ask(search, *files)
    first, second, question = asked(server)
    assert first["inlineData"]["mimeType"] == "text/markdown"
    assert base64.urlsafe_b64decode(first["inlineData"]["data"]).decode() == WARRANTY
    assert second["inlineData"]["mimeType"] == "image/png"
    assert base64.urlsafe_b64decode(second["inlineData"]["data"]) == PNG
    assert question == {"text": QUESTION}
    assert "tools" not in camel(server.calls[-1].json)
    assert [call.path for call in server.calls] == [
        "/v1beta/models/gemini-2.5-flash:generateContent"
    ]
    assert answer.text == f"The warranty lasts two years. image/png of {len(PNG)} bytes. "
    assert answer.groundings == (Grounding("保固.md", ""), Grounding("p.png", ""))
    assert answer.documents == (answer.text,)


def test_large_files_go_through_the_files_api_and_are_deleted_there(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path
) -> None:
    small = sent_file(tmp_path / "small.txt", WARRANTY)
    large = sent_file(tmp_path / "大.txt", LEAVE.encode() * 200_000)
    answer = ask(search, large, small, wait_s=30.0)
    first, second, _ = asked(server)
    assert first["fileData"]["mimeType"] == "text/plain"
    assert first["fileData"]["fileUri"].startswith(f"{server.url}/v1beta/files/citable-")
    assert "inlineData" in second
    assert [grounding.source for grounding in answer.groundings] == ["大.txt", "small.txt"]
    assert server.files.files == {}
    start = next(call for call in server.calls if call.path == "/upload/v1beta/files")
    assert camel(start.json)["file"]["displayName"] == "大.txt"
    assert answer.notice == ""


def test_as_many_small_files_as_fit_go_inline(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path
) -> None:
    files = [sent_file(tmp_path / f"{n}.txt", b"word " * (MB // 5 * n)) for n in (6, 1, 9)]
    ask(search, *files, wait_s=30.0)
    kinds = ["inlineData" if "inlineData" in part else "fileData" for part in asked(server)[:3]]
    assert kinds == ["inlineData", "inlineData", "fileData"]
    assert server.files.files == {}


@pytest.mark.parametrize("file_by", ["inline", "remote"])
async def test_pieces_make_up_the_whole_answer(
    server: GeminiServer, tmp_path: Path, file_by: str
) -> None:
    search = backend(server, inline_bytes=10 if file_by == "remote" else 1000)
    files = [sent_file(tmp_path / "a.txt", WARRANTY), sent_file(tmp_path / "b.txt", "Two years.")]
    question = GroundedQuestion(QUESTION, files=files)
    *earlier, last = await pieces_of(search.stream(question, deadline=Deadline(5.0)))
    assert len(earlier) == 2 and last.text == ""
    assert "".join(piece.text for piece in earlier) == ask(search, *files).text
    assert [grounding.source for grounding in last.groundings] == ["a.txt", "b.txt"]
    assert server.files.files == {}


def test_several_files_are_sent_side_by_side(
    server: GeminiServer, remote: GeminiFileSearch, tmp_path: Path
) -> None:
    files = [sent_file(tmp_path / f"{n}.txt", f"Lamp {n} has a warranty.") for n in range(6)]
    server.fail(*[Fault(delay_s=0.3, on="upload_id=") for _ in range(6)])
    answer = ask(remote, *files)
    # One whose answer is on its way may still be counted.
    assert server.n_active_most in (4, 5)
    assert [grounding.source for grounding in answer.groundings] == [f"{n}.txt" for n in range(6)]
    assert [f"Lamp {n}" in answer.text for n in range(6)] == [True] * 6
    assert server.files.files == {}


def test_the_type_is_told_by_the_content_unless_it_is_given(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path
) -> None:
    ask(search, sent_file(tmp_path / "a.jpg", PNG), sent_file(tmp_path / "b", "x", "text/x-odd"))
    kinds = [part["inlineData"]["mimeType"] for part in asked(server)[:2]]
    assert kinds == ["image/png", "text/x-odd"]


def docx(*paragraphs: str) -> bytes:
    """Return a Word file that says this."""
    made = io.BytesIO()
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    with zipfile.ZipFile(made, "w") as archive:
        part = f'<Override PartName="/word/document.xml" ContentType="{kind}.document.main+xml"/>'
        space = "http://schemas.openxmlformats.org/package/2006"
        archive.writestr(
            "[Content_Types].xml", f'<Types xmlns="{space}/content-types">{part}</Types>'
        )
        office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
        to_main = (
            f'<Relationship Id="r1" Type="{office}/officeDocument" Target="word/document.xml"/>'
        )
        archive.writestr(
            "_rels/.rels", f'<Relationships xmlns="{space}/relationships">{to_main}</Relationships>'
        )
        body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
        word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
        archive.writestr(
            "word/document.xml",
            f'<w:document xmlns:w="{word}"><w:body>{body}</w:body></w:document>',
        )
    return made.getvalue()


def test_what_models_do_not_read_goes_as_text_under_its_own_name(
    server: GeminiServer, tmp_path: Path
) -> None:
    search = backend(server, parser=SandboxedParser())
    word = sent_file(tmp_path / "保固.docx", docx(WARRANTY, "保固期為兩年。"))
    old = sent_file(tmp_path / "big5.txt", LEAVE.encode("big5"))
    plain = sent_file(tmp_path / "plain.md", WARRANTY)
    answer = ask(search, word, old, plain, wait_s=30.0)
    parts = [part["inlineData"] for part in asked(server)[:3]]
    texts = [base64.urlsafe_b64decode(part["data"]).decode() for part in parts]
    assert [part["mimeType"] for part in parts] == ["text/plain", "text/plain", "text/markdown"]
    assert WARRANTY in texts[0] and "保固期為兩年。" in texts[0]
    assert texts[1].strip() == LEAVE
    assert texts[2] == WARRANTY
    names = [grounding.source for grounding in answer.groundings]
    assert names == ["保固.docx", "big5.txt", "plain.md"]


def test_a_document_that_cannot_be_read_here_is_named(server: GeminiServer, tmp_path: Path) -> None:
    search = backend(server, parser=SandboxedParser())
    broken = sent_file(tmp_path / "broken.docx", docx("x").replace(b"<w:body>", b"<w:bodx>"))
    with pytest.raises(DocumentError, match="“broken.docx”"):
        ask(search, broken, sent_file(tmp_path / "good.txt"), wait_s=30.0)
    # Valid UTF-8 that calls itself a text.
    program = sent_file(tmp_path / "notes.txt", b"\x7fELF\x02\x01\x01" + bytes(200))
    with pytest.raises(DocumentError, match="“notes.txt” is (binary|neither)"):
        ask(search, program, wait_s=30.0)
    assert server.calls == []


def test_cancelling_does_not_wait_for_a_file_that_is_being_read(
    server: GeminiServer, tmp_path: Path
) -> None:
    begun = threading.Event()

    class Slow:
        def parse(self, path: Path, name: str, *, encoding: str = "") -> ParsedDocument:
            begun.set()
            time.sleep(3.0)
            raise DocumentError("late")

    search, deadline = backend(server, parser=Slow()), Deadline(30.0)
    files = [sent_file(tmp_path / f"{n}.docx", docx(WARRANTY)) for n in range(5)]
    threading.Thread(target=lambda: (begun.wait(), deadline.cancel())).start()
    started = time.monotonic()
    with pytest.raises(CancelledError):
        search.answer(GroundedQuestion(QUESTION, files=files), deadline=deadline)
    assert time.monotonic() - started < 1.5
    assert server.calls == []


def test_without_a_parser_the_model_refuses_a_word_file(
    search: GeminiFileSearch, tmp_path: Path
) -> None:
    with pytest.raises(
        ProviderError, check=lambda e: "Unsupported MIME type: application/vnd.openxml" in e.detail
    ):
        ask(search, sent_file(tmp_path / "a.docx", docx(WARRANTY)))


def test_one_bad_file_fails_the_question_with_its_name(
    server: GeminiServer, search: GeminiFileSearch, tmp_path: Path
) -> None:
    good = sent_file(tmp_path / "good.txt")
    large = sent_file(tmp_path / "large.txt")
    with large.path.open("r+b") as file:
        file.truncate(100 * MB + 1)
    gone = InlineFile("gone.txt", tmp_path / "gone.txt", "")
    for bad, kind in (
        (sent_file(tmp_path / "empty.txt", ""), DocumentError),
        (large, LimitError),
        (gone, DocumentError),
        (sent_file(tmp_path / "odd.bin", b"a\0b"), DocumentError),
    ):
        with pytest.raises(kind, match=f"“{bad.name}”"):
            ask(search, good, bad)
    assert server.calls == []


def test_a_type_that_the_model_does_not_read_is_said(
    search: GeminiFileSearch, tmp_path: Path
) -> None:
    with pytest.raises(
        ProviderError, check=lambda e: "Unsupported MIME type: application/octet-stream" in e.detail
    ):
        ask(search, sent_file(tmp_path / "a", "x", "application/octet-stream"))


def test_a_file_that_turns_failed_is_named_and_all_are_deleted(
    server: GeminiServer, remote: GeminiFileSearch, tmp_path: Path
) -> None:
    server.files.modes.file = "FAILED"
    with pytest.raises(DocumentError, match="cannot read “[ab].txt”"):
        ask(remote, *[sent_file(tmp_path / f"{name}.txt") for name in "ab"])
    assert server.files.files == {}


def test_a_file_that_is_never_ready_ends_with_the_deadline_and_is_deleted(
    server: GeminiServer, remote: GeminiFileSearch, tmp_path: Path
) -> None:
    server.files.modes.file = "PROCESSING"
    started = time.monotonic()
    with pytest.raises(ProviderTimeoutError):
        ask(remote, sent_file(tmp_path / "a.txt"), wait_s=1.0)
    assert time.monotonic() - started < 1.5
    assert server.files.files == {}


def test_a_lost_answer_leaves_no_copy_behind(
    server: GeminiServer, remote: GeminiFileSearch, tmp_path: Path
) -> None:
    modes = server.files.modes
    modes.cut_at, modes.n_cuts, modes.is_kept = 1.0, 2, True
    assert "two years" in ask(remote, sent_file(tmp_path / "a.txt")).text
    starts = [call for call in server.calls if call.headers.get("x-goog-upload-command") == "start"]
    assert len({camel(call.json)["file"]["name"] for call in starts}) == 3
    assert server.files.files == {}


@pytest.mark.parametrize(
    "fault",
    [
        Fault(503, error(503, "UNAVAILABLE", "Later.").body, times=2, on="/files"),
        Fault(cut="before", times=2, on="upload_id="),
        Fault(200, b"", times=1, on="upload_id="),
    ],
)
def test_passing_faults_are_got_over(
    server: GeminiServer, remote: GeminiFileSearch, tmp_path: Path, fault: Fault
) -> None:
    server.fail(Fault(fault.status, fault.body, cut=fault.cut, times=fault.times, on=fault.on))
    assert "two years" in ask(remote, sent_file(tmp_path / "a.txt")).text
    assert server.files.files == {}


def test_copies_that_cannot_be_deleted_are_told_of_in_answer_and_log(
    server: GeminiServer,
    remote: GeminiFileSearch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    server.fail(Fault(500, error(500, "INTERNAL", f"No, {KEY}.").body, times=99, on="DELETE"))
    answer = ask(remote, sent_file(tmp_path / "a.txt"))
    assert "two years" in answer.text
    assert answer.notice.startswith("Gemini keeps copies of 1 files for up to 48 hours")
    (name,) = server.files.files
    assert f"{name} stays at Gemini" in caplog.text and KEY not in caplog.text


def test_a_question_that_is_blocked_leaves_no_copies(
    server: GeminiServer, remote: GeminiFileSearch, tmp_path: Path
) -> None:
    server.chat = Script(kind="blocked")
    with pytest.raises(ProviderError, match="blocked the question") as caught:
        ask(remote, sent_file(tmp_path / "a.txt"))
    assert server.files.files == {}
    assert KEY not in told(caught.value)


@pytest.mark.parametrize("where", ["upload_id", "GET .*/files/", "enerateContent"])
def test_cancelling_wakes_the_call_and_deletes_the_copies(
    server: GeminiServer, remote: GeminiFileSearch, tmp_path: Path, where: str
) -> None:
    server.fail(Fault(delay_s=30.0, on=where))
    deadline = Deadline(30.0)
    act_when(server, where, deadline.cancel)
    question = GroundedQuestion(QUESTION, files=[sent_file(tmp_path / "a.txt")])
    started = time.monotonic()
    with pytest.raises(CancelledError):
        remote.answer(question, deadline=deadline)
    assert time.monotonic() - started < 1.5
    assert server.gone.wait(2.0)
    assert server.files.files == {}


async def test_leaving_a_stream_deletes_the_copies(
    server: GeminiServer, remote: GeminiFileSearch, tmp_path: Path
) -> None:
    server.chat = Script(ending="hang")
    question = GroundedQuestion(QUESTION, files=[sent_file(tmp_path / "a.txt")])
    stream = remote.stream(question, deadline=Deadline(30.0))
    assert (await anext(stream)).text
    assert len(server.files.files) == 1
    await stream.aclose()  # type: ignore[attr-defined]
    assert server.gone.wait(2.0)
    assert server.files.files == {}


async def test_cancelling_the_reader_s_task_deletes_the_copies(
    server: GeminiServer, remote: GeminiFileSearch, tmp_path: Path
) -> None:
    server.chat = Script(ending="hang")
    question = GroundedQuestion(QUESTION, files=[sent_file(tmp_path / "a.txt")])
    task = asyncio.create_task(pieces_of(remote.stream(question, deadline=Deadline(30.0))))
    loop = asyncio.get_running_loop()
    act_when(server, "streamGenerateContent", lambda: loop.call_soon_threadsafe(task.cancel))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert server.gone.wait(2.0)
    assert server.files.files == {}
