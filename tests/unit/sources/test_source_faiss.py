"""The FAISS source on real indexes: scores, filters, ids, what does not fit, and without FAISS."""

from __future__ import annotations

import builtins
import json
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import (
    CancelledError,
    ConfigurationError,
    InvalidInputError,
    ProviderTimeoutError,
)
from rag.core.options import read_options
from rag.core.sources import SourceQuery, SourceResult
from rag.plugins.contract_source import Ask, LentPorts, SourceContract
from rag.plugins.rows import chroma_collection
from rag.plugins.rows.index_folder import FileCache
from rag.plugins.rows.json_lines import JsonLines
from rag.plugins.sources import faiss as faiss_module
from rag.plugins.sources.faiss import FaissSource
from rag.providers import sentence_transformers
from tests.fakes.words_embedder import WordsEmbedder

DIM = 32
TEXTS = ["the pump stops", "水泵停机", "the valve is blue", "冷却水", "pump and valve"]


class ModelPorts(LentPorts):
    """The embedder of hashed words, of as many dimensions as named."""

    def embed_query(self, text: str, *, model: str = "") -> NDArray[np.float32]:
        sound = text.encode("utf-8", "replace").decode()
        return WordsEmbedder(int(model.partition(":")[2] or DIM)).embed_query(sound)


@pytest.fixture
def faiss() -> Any:
    return pytest.importorskip("faiss")


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.VAR_DIR = tmp_path
    made = tmp_path / "indexes"
    made.mkdir()
    return made


def vectors() -> NDArray[np.float32]:
    return WordsEmbedder(DIM).embed_passages(TEXTS)


def write_texts(path: Path, rows: list[Any]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def plain_rows() -> list[dict[str, Any]]:
    return [
        {"text": text, "source": f"{n}.pdf", "lang": "en" if text.isascii() else "zh"}
        for n, text in enumerate(TEXTS)
    ]


@pytest.fixture
def flat(folder: Path, faiss: Any) -> Path:
    index = faiss.IndexFlatIP(DIM)
    index.add(vectors())
    faiss.write_index(index, str(folder / "flat.faiss"))
    write_texts(folder / "flat.jsonl", plain_rows())
    return folder / "flat.faiss"


def ask(text: str, deadline: Deadline | None = None, /, **options: Any) -> SourceResult:
    made = read_options(FaissSource.Options, {"path": "flat.faiss", **options}, of="faiss")
    query = SourceQuery(text, Scope.anonymous(), deadline or Deadline(10), ModelPorts({}))
    return FaissSource(made).retrieve(query)


class TestFaissSource(SourceContract):
    plugin = FaissSource
    options = {"path": "flat.faiss"}
    has_access_rules = False
    is_never_slow = "a search of FAISS is not interrupted; it takes milliseconds"

    @pytest.fixture(autouse=True)
    def _index(self, flat: Path) -> None:
        (flat.parent / "odd.faiss").write_bytes(b"not an index")
        (flat.parent / "odd.jsonl").write_text("")

    def ports(self) -> Any:
        return ModelPorts({})

    def query_with_hits(self) -> str:
        return "pump"

    def query_without_hits(self) -> Ask:
        return Ask("pump", options={**self.options, "similarity_threshold": 5.0})

    def failing_query(self) -> Ask:
        return Ask("pump", options={"path": "odd.faiss"})


def test_the_nearest_rows_come_with_their_cosine(flat: Path) -> None:
    found = ask("the pump stops", top_k=3)
    best = found.hits[0]
    assert (best.text, best.file_name, best.external_id) == ("the pump stops", "0.pdf", "0")
    assert best.score == pytest.approx(1.0, abs=1e-6)
    assert best.metadata == {"source": "0.pdf", "lang": "en"}
    assert len(found.hits) == 3
    scores = [hit.score or 0 for hit in found.hits]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("kind", ["Flat", "HNSW16,Flat", "IVF2,Flat"])
def test_l2_indexes_of_unit_vectors_score_the_cosine_too(
    kind: str, folder: Path, faiss: Any
) -> None:
    index = faiss.index_factory(DIM, kind, faiss.METRIC_L2)
    index.train(vectors())
    index.add(vectors())
    if "IVF" in kind:
        index.nprobe = 2
    faiss.write_index(index, str(folder / "l2.faiss"))
    write_texts(folder / "l2.jsonl", plain_rows())
    wanted = WordsEmbedder(DIM).embed_query("blue pump")
    found = ask("blue pump", path="l2.faiss", top_k=50)
    assert len(found.hits) == len(TEXTS)
    for hit in found.hits:
        expected = float(wanted @ WordsEmbedder(DIM).embed_query(hit.text))
        assert hit.score == pytest.approx(expected, abs=1e-5)


def test_other_measures_score_a_share(folder: Path, faiss: Any) -> None:
    index = faiss.IndexFlat(DIM, faiss.METRIC_L1)
    index.add(vectors())
    faiss.write_index(index, str(folder / "l1.faiss"))
    write_texts(folder / "l1.jsonl", plain_rows())
    found = ask("the pump stops", path="l1.faiss")
    assert found.hits[0].score == pytest.approx(1.0, abs=1e-4)
    assert all(0 < (hit.score or 0) <= 1.0001 for hit in found.hits)


def test_filters_look_as_far_as_they_must(folder: Path, faiss: Any) -> None:
    texts = ["pump"] * 3000 + ["valve"]
    index = faiss.IndexFlatIP(DIM)
    index.add(WordsEmbedder(DIM).embed_passages(texts))
    faiss.write_index(index, str(folder / "many.faiss"))
    rows = [{"text": text, "metadata": {"kind": text, "n": n}} for n, text in enumerate(texts)]
    write_texts(folder / "many.jsonl", rows)
    found = ask("pump", path="many.faiss", filters={"kind": "valve"})
    assert [hit.metadata for hit in found.hits] == [{"kind": "valve", "n": 3000}]
    two = ask("pump", path="many.faiss", filters={"kind": ["valve", "x"], "n": [1, 3000]})
    assert [hit.external_id for hit in two.hits] == ["3000"]
    assert ask("pump", path="many.faiss", filters={"kind": "seal"}).hits == ()


def test_an_index_with_ids_of_its_own_finds_its_rows_by_them(folder: Path, faiss: Any) -> None:
    ids = np.array([70, -5, 10**12, 3, 4])
    index = faiss.IndexIDMap2(faiss.IndexFlatIP(DIM))
    index.add_with_ids(vectors()[[0, 2, 1, 3, 4]], np.array([70, 10**12, 5, 3, 4]))
    faiss.write_index(index, str(folder / "ids.faiss"))
    rows = [{"key": int(key), "body": text} for key, text in zip(ids, TEXTS, strict=True)]
    write_texts(folder / "rows.jsonl", rows)
    at = {"path": "ids.faiss", "texts": "rows.jsonl", "id_field": "key", "text_field": "body"}
    found = ask("the valve is blue", **at)
    assert (found.hits[0].text, found.hits[0].external_id) == ("the valve is blue", str(10**12))
    assert found.hits[0].file_name == "ids.faiss"
    assert found.notes == ("1 vectors have no text.",)
    assert len(found.hits) == 4


def test_another_models_vectors_are_refused_with_both_sizes(flat: Path) -> None:
    with pytest.raises(ConfigurationError, match="32 dimensions and .* 8") as caught:
        ask("pump", embedding_model="words:8")
    assert "embedding_model" in str(caught.value)


def test_texts_that_are_not_one_for_each_vector_are_refused(flat: Path) -> None:
    write_texts(flat.with_suffix(".jsonl"), plain_rows()[:3])
    with pytest.raises(ConfigurationError, match="5 vectors and its texts 3 lines"):
        ask("pump")


@pytest.mark.parametrize("line", ["", "[1]", "{", "no json", "[" * 5000])
def test_a_line_that_is_no_object_is_named(line: str, flat: Path) -> None:
    flat.with_suffix(".jsonl").write_text("\n".join([line] * 5) + "\n")
    with pytest.raises(ConfigurationError, match="flat.jsonl holds something else"):
        ask("pump")


def test_a_folder_where_a_file_is_meant_is_an_error_for_people(flat: Path) -> None:
    (flat.parent / "texts").mkdir()
    with pytest.raises(ConfigurationError, match="texts cannot be read: Is a directory"):
        ask("pump", texts="texts")
    with pytest.raises(ConfigurationError, match="cannot be read as a FAISS index"):
        ask("pump", path="texts", texts="flat.jsonl")


def test_threads_share_one_loaded_index(flat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Path] = []

    def load(path: Path, deadline: Deadline) -> Any:
        loaded.append(path)
        return faiss_module._read_index(path, deadline)

    monkeypatch.setattr(faiss_module, "_INDEXES", FileCache(load))
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: ask("the pump stops").hits[0].text, range(40)))
    assert found == ["the pump stops"] * 40
    assert len(loaded) == 1


def test_the_least_used_file_is_dropped_first(tmp_path: Path) -> None:
    cache, made = FileCache(JsonLines, size=2), {}
    for name in "abc":
        path = tmp_path / name
        path.write_text("{}\n")
        made[name] = cache.get(path, deadline=Deadline(5))
    assert cache.get(tmp_path / "c", deadline=Deadline(5)) is made["c"]
    assert cache.get(tmp_path / "a", deadline=Deadline(5)) is not made["a"]


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text()), unique_by=lambda row: row[0])
)
def test_every_row_is_found_by_its_key_and_no_other(rows: list[tuple[int, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        write_texts(path, [{"id": key, "text": text} for key, text in rows])
        by_key = JsonLines(path, Deadline(30), key_field="id")
        by_line = JsonLines(path, Deadline(30))
        keys = [key for key, _ in rows]
        assert {key: row["text"] for key, row in by_key.rows(keys).items()} == dict(rows)
        lines = by_line.rows(list(range(len(rows) + 1)))
        assert [row["text"] for row in lines.values()] == [text for _, text in rows]


def test_reading_lines_ends_with_the_deadline(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text('{"id": 1}\n' * 50_000)
    with pytest.raises(ProviderTimeoutError):
        JsonLines(path, Deadline(0.01), key_field="id")


def test_a_row_without_a_whole_number_as_key_is_named(flat: Path) -> None:
    with pytest.raises(ConfigurationError, match="Line 1 of flat.jsonl has no whole number"):
        ask("pump", id_field="source")


def test_a_changed_index_is_read_anew(flat: Path, faiss: Any) -> None:
    assert len(ask("pump", top_k=9).hits) == 5
    index = faiss.IndexFlatIP(DIM)
    index.add(vectors()[:2])
    fresh = flat.with_name("fresh")
    faiss.write_index(index, str(fresh))
    fresh.replace(flat)
    write_texts(flat.with_suffix(".jsonl"), plain_rows()[:2])
    os.utime(flat.with_suffix(".jsonl"), (1, 1))
    assert len(ask("pump", top_k=9).hits) == 2


def test_pickles_are_never_opened(flat: Path) -> None:
    (flat.parent / "flat.pkl").write_bytes(b"cos\nsystem\n(S'touch /tmp/pickled'\ntR.")
    with pytest.raises(ConfigurationError, match="is a pickle"):
        ask("pump", texts="flat.pkl")


@pytest.mark.parametrize("path", ["../flat.faiss", "/etc/passwd", "a/../../b", "", "x\0y"])
def test_a_path_stays_within_its_folder(path: str, flat: Path) -> None:
    with pytest.raises(InvalidInputError, match="no path within the folder"):
        ask("pump", path=path)
    with pytest.raises(ConfigurationError, match="There is no “nope.faiss”"):
        ask("pump", path="nope.faiss")


def test_indexes_of_bits_and_broken_ones_are_refused(folder: Path, faiss: Any) -> None:
    faiss.write_index_binary(faiss.IndexBinaryFlat(32), str(folder / "bits.faiss"))
    write_texts(folder / "bits.jsonl", [])
    with pytest.raises(ConfigurationError, match="cannot be read as a FAISS index"):
        ask("pump", path="bits.faiss")


def test_the_versions_that_errors_name_are_those_of_the_extras() -> None:
    extras = Path(__file__).resolve().parents[3] / "requirements-extras.txt"
    listed = extras.read_text("utf-8").splitlines()
    for module in (faiss_module, chroma_collection, sentence_transformers):
        assert module._REQUIREMENT in listed


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name == "faiss":
            raise ImportError("No module named 'faiss'")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    yield


def test_without_the_package_it_says_what_to_do(folder: Path, no_package: None) -> None:
    (folder / "lone.faiss").write_bytes(b"x")
    (folder / "lone.jsonl").write_text("")
    with pytest.raises(ConfigurationError, match="Run: pip install faiss-cpu==") as caught:
        ask("pump", path="lone.faiss")
    assert "No module named 'faiss'" in str(caught.value)


def test_who_waits_for_a_file_waits_until_the_deadline(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("{}\n" * 10)
    cache = FileCache(JsonLines)
    with cache._lock, pytest.raises(ProviderTimeoutError):
        cache.get(path, deadline=Deadline(0.1))
    late = Deadline(5)
    late.cancel()
    with pytest.raises(CancelledError):
        cache.get(path, deadline=late)
    first = cache.get(path, deadline=Deadline(5))
    assert cache.get(path, deadline=Deadline(5)) is first
    assert len(first) == 10
    assert first.rows([0, 9, 10, -1]) == {0: {}, 9: {}}
