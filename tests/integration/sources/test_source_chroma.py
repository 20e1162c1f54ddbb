"""The Chroma source: over HTTP against a loopback server, and against Chroma itself if installed."""

from __future__ import annotations

import builtins
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import (
    ConfigurationError,
    ForbiddenError,
    InvalidInputError,
    ProviderError,
    RAGError,
    UnknownNameError,
)
from rag.core.options import read_options
from rag.core.sources import FetchReply, FetchRequest, SourceQuery, SourceResult
from rag.plugins.contract_source import Ask, LentPorts, SourceContract
from rag.plugins.sources.chroma import ChromaSource
from rag.providers.http.guard import GuardedHttp
from tests.fakes.chroma_server import ChromaServer
from tests.fakes.loopback import Fault, LoopbackServer, Reply
from tests.fakes.words_embedder import WordsEmbedder

DIM = 32
SECRETS = {"chroma": "t0ken-of-chroma"}
TEXTS = {
    "a": ("the pump stops", {"lang": "en", "page": 3, "source": "pump.pdf"}),
    "b": ("水泵停机", {"lang": "zh", "page": 3}),
    "c": ("the valve is blue", {"lang": "en", "page": 9}),
}


class ModelPorts(LentPorts):
    """The house's network and the embedder of hashed words, of as many dimensions as named."""

    def __init__(self, allowed: tuple[str, ...] = ("127.0.0.1",)) -> None:
        super().__init__(SECRETS)
        self._allowed = allowed

    def embed_query(self, text: str, *, model: str = "") -> NDArray[np.float32]:
        sound = text.encode("utf-8", "replace").decode()
        return WordsEmbedder(int(model.partition(":")[2] or DIM)).embed_query(sound)

    def fetch(self, request: FetchRequest, *, deadline: Deadline) -> FetchReply:
        return GuardedHttp(self._allowed).fetch(request, deadline=deadline)


def records(texts: Any = None) -> list[dict[str, Any]]:
    model = WordsEmbedder(DIM)
    return [
        {
            "id": key,
            "text": text,
            "metadata": metadata,
            "vector": [float(x) for x in model.embed_query(text)],
        }
        for key, (text, metadata) in (texts or TEXTS).items()
    ]


def ask(text: str, ports: LentPorts | None = None, /, **options: Any) -> SourceResult:
    made = read_options(ChromaSource.Options, options, of="chroma")
    query = SourceQuery(text, Scope.anonymous(), Deadline(10), ports or ModelPorts())
    return ChromaSource(made).retrieve(query)


@pytest.fixture
def server() -> Iterator[ChromaServer]:
    with ChromaServer() as made:
        made.add("manuals", records())
        made.add("nothing", [])
        yield made


class TestChromaSource(SourceContract):
    plugin = ChromaSource
    secrets = SECRETS
    has_access_rules = False

    @pytest.fixture(autouse=True)
    def _serve(self) -> Iterator[None]:
        with ChromaServer(SECRETS["chroma"]) as self.server:
            self.server.add("manuals", records())
            self.server.add("nothing", [])
            self.options = {"url": self.server.origin, "collection": "manuals", "token": "chroma"}
            yield

    def ports(self) -> Any:
        return ModelPorts()

    def query_with_hits(self) -> str:
        return "pump"

    def query_without_hits(self) -> Ask:
        return Ask("pump", options={**self.options, "collection": "nothing"})

    def slow_query(self) -> str:
        self.server.fail(Fault(delay_s=10, times=9))
        return "pump"

    def failing_query(self) -> str:
        self.server.fail(Fault(status=500, body={"error": SECRETS["chroma"]}, times=99))
        return "pump"


def test_records_are_hits_with_their_cosine(server: ChromaServer) -> None:
    found = ask("the pump stops", url=server.origin, collection="manuals", top_k=2)
    best = found.hits[0]
    assert (best.text, best.file_name, best.external_id) == ("the pump stops", "pump.pdf", "a")
    assert best.metadata == {"lang": "en", "page": 3, "source": "pump.pdf"}
    assert best.score == pytest.approx(1.0, abs=1e-6)
    assert len(found.hits) == 2
    assert ask("水泵停机", url=server.origin, collection="manuals").hits[0].file_name == "manuals"


@pytest.mark.parametrize("space", ["cosine", "ip", "l2"])
def test_scores_of_unit_vectors_do_not_depend_on_the_measure(
    space: str, server: ChromaServer
) -> None:
    server.add("other", records(), space=space)
    question = "the pump is blue"
    wanted = WordsEmbedder(DIM).embed_query(question)
    for hit in ask(question, url=server.origin, collection="other").hits:
        cosine = float(wanted @ WordsEmbedder(DIM).embed_query(hit.text))
        assert hit.score == pytest.approx(cosine, abs=1e-5)


def test_filters_thresholds_and_records_without_text(server: ChromaServer) -> None:
    at = {"url": server.origin, "collection": "manuals"}

    def keys(**options: Any) -> set[str]:
        return {hit.external_id for hit in ask("pump", **at, **options).hits}

    assert keys(filters={"lang": "zh"}) == {"b"}
    assert keys(filters={"lang": "en", "page": 3}) == {"a"}
    assert keys(filters={"page": [9, 10]}) == {"c"}
    assert keys(filters={"$and": [{"lang": "en"}, {"page": 9}]}) == {"c"}
    assert keys(similarity_threshold=0.3) == {"a"}
    assert keys(similarity_threshold=2) == set()
    server.add("bare", [{**one, "text": None, "metadata": None} for one in records()])
    assert ask("pump", url=server.origin, collection="bare").hits == ()


def test_an_empty_collection_says_so(server: ChromaServer) -> None:
    found = ask("pump", url=server.origin, collection="nothing")
    assert (found.hits, found.notes) == ((), ("The collection is empty.",))


def test_another_models_vectors_are_refused_with_both_sizes(server: ChromaServer) -> None:
    with pytest.raises(ConfigurationError, match="“manuals” has 32 dimensions .* 8") as caught:
        ask("pump", url=server.origin, collection="manuals", embedding_model="words:8")
    assert "embedding_model" in str(caught.value)


def test_what_is_not_there_is_told_by_the_server(server: ChromaServer) -> None:
    with pytest.raises(ProviderError, match="404"):
        ask("pump", url=server.origin, collection="nope")
    with pytest.raises(ProviderError, match="404"):
        ask("pump", url=server.origin, collection="../../nope?x=1#y")
    assert server.calls[-1].path.endswith("/collections/..%2F..%2Fnope%3Fx%3D1%23y")
    with pytest.raises(UnknownNameError, match="secret"):
        ask("pump", url=server.origin, collection="manuals", token="nope")


def test_a_server_on_a_private_address_must_be_allowed(server: ChromaServer) -> None:
    with pytest.raises(ForbiddenError):
        ask("pump", ModelPorts(allowed=()), url=server.origin, collection="manuals")
    assert server.calls == []


@pytest.mark.parametrize("body", [b"<html>", b"[]", {"ids": [["a"]]}, {"id": "x", "dimension": 32}])
def test_an_answer_of_something_else_is_an_error_for_people(body: Any) -> None:
    with LoopbackServer() as server:
        server.route("GET", "/.*", lambda call: Reply(body))
        server.route("POST", "/.*", lambda call: Reply(body))
        with pytest.raises(RAGError) as caught:
            ask("pump", url=server.origin, collection="x")
        assert "Chroma" in str(caught.value) or caught.type is ProviderError


def test_either_a_url_or_a_path() -> None:
    for given in ({}, {"url": "http://x", "path": "y"}):
        with pytest.raises(InvalidInputError, match="either “url” or “path”"):
            ask("pump", collection="x", **given)


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.VAR_DIR = tmp_path
    made = tmp_path / "indexes" / "books"
    made.mkdir(parents=True)
    return made


def test_a_folder_without_the_package_says_what_to_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "chromadb":
            raise ImportError("No module named 'chromadb'")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ConfigurationError, match="pip install chromadb==") as caught:
        ask("pump", path="books", collection="manuals")
    assert "No module named 'chromadb'" in str(caught.value)


@pytest.mark.parametrize("path", ["../books", "/etc", "a/../../b", "", " ", "x\0y"])
def test_a_path_stays_within_its_folder(path: str, folder: Path) -> None:
    with pytest.raises(InvalidInputError):
        ask("pump", path=path, collection="x")


def _fill(client: Any, space: str) -> None:
    collection = client.create_collection(
        f"manuals-{space}", embedding_function=None, configuration={"hnsw": {"space": space}}
    )
    made = records()
    collection.add(
        ids=[one["id"] for one in made],
        documents=[one["text"] for one in made],
        embeddings=[one["vector"] for one in made],
        metadatas=[one["metadata"] for one in made],
    )


@pytest.mark.extra
def test_a_real_folder_and_a_real_server_find_the_same(folder: Path) -> None:
    chromadb = pytest.importorskip("chromadb")
    silent = chromadb.config.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(str(folder), settings=silent)
    for space in ("cosine", "l2", "ip"):
        _fill(client, space)
    client.create_collection("nothing", embedding_function=None)
    with ChromaServer() as fake, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        code = (
            "import sys; from chromadb.cli.cli import app; sys.argv = ['chroma', 'run', '--path',"
            f" {str(folder)!r}, '--host', '127.0.0.1', '--port', '{port}']; app()"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _await(port)
            for space in ("cosine", "l2", "ip"):
                fake.add(f"manuals-{space}", records(), space=space)
                for options in ({}, {"filters": {"lang": "en", "page": [3, 4]}}, {"top_k": 1}):
                    at = {"collection": f"manuals-{space}", **options}
                    ours = ask("the pump", url=fake.origin, **at).hits
                    real = ask("the pump", url=f"http://127.0.0.1:{port}", **at).hits
                    local = ask("the pump", path="books", **at).hits
                    _same(real, ours)
                    _same(local, ours)
            url = f"http://127.0.0.1:{port}"
            assert ask("pump", url=url, collection="nothing").notes == ("The collection is empty.",)
            with pytest.raises(ProviderError, match="does not exist"):
                ask("pump", url=url, collection="nope")
        finally:
            process.terminate()
            process.wait(10)
    with pytest.raises(ProviderError, match="does not exist"):
        ask("pump", path="books", collection="nope")
    with pytest.raises(ProviderError, match="refused"):
        ask("pump", path="books", collection="manuals-l2", filters={"$no": 1})
    with pytest.raises(ConfigurationError, match="32 dimensions"):
        ask("pump", path="books", collection="manuals-l2", embedding_model="words:8")
    (folder.parent / "empty").mkdir()
    with pytest.raises(ConfigurationError, match="no folder of Chroma"):
        ask("pump", path="empty", collection="x")
    assert list((folder.parent / "empty").iterdir()) == []


def _same(found: Any, expected: Any) -> None:
    assert [hit.external_id for hit in found] == [hit.external_id for hit in expected]
    for one, other in zip(found, expected, strict=True):
        assert (one.text, one.metadata, one.file_name) == (
            other.text,
            other.metadata,
            other.file_name,
        )
        assert one.score == pytest.approx(other.score, abs=1e-4)


def _await(port: int) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("Chroma did not start")
