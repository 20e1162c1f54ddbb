"""Uploads into Gemini's stores: pieces, names, chunks, the wait, and what stays when they fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag.core.deadline import Deadline
from rag.core.documents import ChunkRule
from rag.core.errors import (
    DocumentError,
    InvalidInputError,
    LimitError,
)
from rag.providers.gemini.file_search import GeminiFileSearch
from tests.fakes.gemini_server import GeminiServer, camel
from tests.integration.gemini_world import KEY, WARRANTY, ask, backend, upload_of

MB = 1024 * 1024
PIECE = 8 * MB
# The start request has no upload_id, the pieces have one.
BYTES, POLL, LIST = "upload_id=", "GET .*/upload/operations/", r"GET .*/documents\?"


@pytest.fixture
def server() -> Iterator[GeminiServer]:
    with GeminiServer() as server:
        server.key = KEY
        yield server


@pytest.fixture
def search(server: GeminiServer) -> GeminiFileSearch:
    return backend(server)


@pytest.fixture
def store(search: GeminiFileSearch) -> str:
    return search.create_store("Store").name


def started_with(server: GeminiServer) -> dict[str, Any]:
    """Return the body of the last start request."""
    starts = [call for call in server.calls if call.headers.get("x-goog-upload-command") == "start"]
    found: dict[str, Any] = camel(starts[-1].json)
    return found


def pieces(server: GeminiServer) -> list[tuple[str, int, int]]:
    """Return command, offset and length of each piece that was sent."""
    return [
        (
            call.headers["x-goog-upload-command"],
            int(call.headers["x-goog-upload-offset"]),
            int(call.headers["content-length"]),
        )
        for call in server.calls
        if "x-goog-upload-offset" in call.headers
    ]


def test_name_type_chunks_and_metadata_go_over_the_wire(
    server: GeminiServer, search: GeminiFileSearch, store: str, tmp_path: Path
) -> None:
    metadata = {"file_id": "12", "year": 2025, "score": 0.5, "tags": ["a", "b"]}
    upload = upload_of(tmp_path / "説明 書.md", rule=ChunkRule(300, 40), metadata=metadata)
    search.upload(store, upload, deadline=Deadline(5.0))
    body = started_with(server)
    assert (body["displayName"], body["mimeType"]) == ("説明 書.md", "text/markdown")
    assert body["chunkingConfig"] == {
        "whiteSpaceConfig": {"maxTokensPerChunk": 300, "maxOverlapTokens": 40}
    }
    *ours, mark = body["customMetadata"]
    assert ours == [
        {"key": "file_id", "stringValue": "12"},
        {"key": "year", "numericValue": 2025.0},
        {"key": "score", "numericValue": 0.5},
        {"key": "tags", "stringListValue": {"values": ["a", "b"]}},
    ]
    assert mark["key"] == "citable_upload" and len(mark["stringValue"]) == 32
    assert "x-goog-upload-file-name" not in server.calls[-3].headers
    assert search.list_documents(store)[0].metadata == metadata


def test_the_bytes_carry_no_key_and_go_where_we_were_told_to_go(
    server: GeminiServer, search: GeminiFileSearch, store: str, tmp_path: Path
) -> None:
    server.files.modes.upload_host = "https://somewhere.invalid"
    search.upload(store, upload_of(tmp_path / "a.txt"), deadline=Deadline(5.0))
    sent = [call for call in server.calls if "x-goog-upload-offset" in call.headers]
    # The service names another host, which would go past a proxy.
    assert len(sent) == 1 and sent[0].path.startswith("/upload/v1beta/fileSearchStores/")
    assert "x-goog-api-key" not in sent[0].headers


@pytest.mark.parametrize("size", [1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 5])
def test_files_go_in_pieces_of_8_mib(
    server: GeminiServer, search: GeminiFileSearch, store: str, tmp_path: Path, size: int
) -> None:
    told: list[float] = []
    upload = upload_of(tmp_path / "a.txt", b"a" * size, on_progress=told.append)
    document = search.upload(store, upload, deadline=Deadline(20.0))
    assert document.size_bytes == size
    offsets = list(range(0, size, PIECE))
    lengths = [min(PIECE, size - at) for at in offsets]
    commands = ["upload"] * (len(offsets) - 1) + ["upload, finalize"]
    assert pieces(server) == list(zip(commands, offsets, lengths, strict=True))
    assert told == sorted(told) and told[0] == 0.0 and told[-2:] == [0.8, 1.0]
    assert len(told) == len(offsets) + 2


def test_both_versions_serve(server: GeminiServer, tmp_path: Path) -> None:
    for version in ("v1", "v1beta"):
        search = backend(server, version=version)
        store = search.create_store(version).name
        search.upload(store, upload_of(tmp_path / "a.txt"), deadline=Deadline(5.0))
        assert search.answer(ask(store), deadline=Deadline(5.0)).groundings
    paths = {call.path.removeprefix("/upload").split("/")[1] for call in server.calls}
    assert paths == {"v1", "v1beta"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"display_name": "n" * 513}, "has 1 to 512 characters, this one 513"),
        ({"display_name": " "}, "has 1 to 512 characters"),
        ({"metadata": {f"k{n}": "v" for n in range(20)}}, "20 metadata are too many"),
        ({"metadata": {"k": None}}, "cannot keep the metadata “k”"),
        ({"metadata": {"k": True}}, "cannot keep the metadata “k”"),
        ({"metadata": {"k": [1, 2]}}, "cannot keep the metadata “k”"),
        ({"metadata": {"citable_upload": "x"}}, "cannot keep the metadata “citable_upload”"),
    ],
)
def test_what_gemini_would_refuse_is_refused_before_anything_is_sent(
    server: GeminiServer,
    search: GeminiFileSearch,
    store: str,
    tmp_path: Path,
    given: dict[str, Any],
    words: str,
) -> None:
    n_calls = len(server.calls)
    with pytest.raises(InvalidInputError, match=words):
        search.upload(store, upload_of(tmp_path / "a.txt", **given), deadline=Deadline(5.0))
    assert len(server.calls) == n_calls


@pytest.mark.parametrize(
    ("rule", "sent"), [((50, 0), (50, 0)), ((500, 100), (500, 100)), ((50, 100), (50, 22))]
)
def test_every_rule_of_ours_is_one_that_gemini_takes(
    server: GeminiServer,
    search: GeminiFileSearch,
    store: str,
    tmp_path: Path,
    rule: tuple[int, int],
    sent: tuple[int, int],
) -> None:
    search.upload(
        store, upload_of(tmp_path / "a.txt", rule=ChunkRule(*rule)), deadline=Deadline(5.0)
    )
    found = started_with(server)["chunkingConfig"]["whiteSpaceConfig"]
    assert (found["maxTokensPerChunk"], found.get("maxOverlapTokens", 0)) == sent


def test_a_file_over_100_mb_or_gone_or_unknown_is_refused(
    server: GeminiServer, search: GeminiFileSearch, store: str, tmp_path: Path
) -> None:
    n_calls = len(server.calls)
    large = upload_of(tmp_path / "large.txt")
    with large.path.open("r+b") as file:
        file.truncate(100 * MB + 1)
    with pytest.raises(LimitError, match="“large.txt” is larger than 100 MB"):
        search.upload(store, large, deadline=Deadline(5.0))
    gone = upload_of(tmp_path / "gone.txt")
    gone.path.unlink()
    with pytest.raises(DocumentError, match="“gone.txt” cannot be read"):
        search.upload(store, gone, deadline=Deadline(5.0))
    with pytest.raises(DocumentError, match="neither text nor a kind of document"):
        search.upload(store, upload_of(tmp_path / "x.bin", b"a\0b\1"), deadline=Deadline(5.0))
    assert len(server.calls) == n_calls


_CLIENT = """
import sys
from pathlib import Path
from rag.core.deadline import Deadline
from rag.core.documents import ChunkRule
from rag.core.file_search import Upload
from rag.providers.gemini.client import GeminiEndpoint
from rag.providers.gemini.file_search import GeminiFileSearch

url, key, store, small, large = sys.argv[1:]
search = GeminiFileSearch("m", GeminiEndpoint(key, url))
# The high-water mark of this program; getrusage would tell that of the one that started it.
most = lambda: int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
for path in (small, large):
    search.upload(store, Upload(Path(path), "a.txt", "", ChunkRule()), deadline=Deadline(60))
    print(f"{most():.1f}")
"""


def test_an_upload_of_100_mb_takes_the_memory_of_some_pieces(
    server: GeminiServer, store: str, tmp_path: Path
) -> None:
    small = upload_of(tmp_path / "small.txt")
    large = upload_of(tmp_path / "large.txt", b"line\n" * (20 * MB))
    paths = [str(small.path), str(large.path)]
    done = subprocess.run(
        [sys.executable, "-c", _CLIENT, server.url, KEY, store, *paths],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, after = map(float, done.stdout.split())
    # Pieces of 8 MiB are held a few at a time; the file held whole would be 100 and more.
    assert after - before < 50.0, (before, after)


def test_words_of_the_upload_are_found(
    search: GeminiFileSearch, store: str, tmp_path: Path
) -> None:
    search.upload(store, upload_of(tmp_path / "a.txt", WARRANTY), deadline=Deadline(5.0))
    assert "two years" in search.answer(ask(store), deadline=Deadline(5.0)).text
