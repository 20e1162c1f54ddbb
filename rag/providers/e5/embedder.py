"""Embedder multilingual-e5-small on ONNX Runtime, cached on disk: centred unit vectors of 384."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rag.core.errors import ConfigurationError, UnknownNameError
from rag.providers.e5.centring import CENTRING_VERSION, Role, centre
from rag.providers.e5.tokenizer import E5Tokenizer
from rag.providers.e5.weights import SHA256, SHARED, Weights
from rag.providers.local_models import Once, TextThreads, unit_vector

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


PRECISIONS = ("int8", "fp32")
GRAPH_VERSION = 1
"""Goes up whenever ``graph`` writes another model for the same weights."""


def prepare_model(weights: Weights, precision: str, cache_dir: Path) -> Path:
    """Return the path of the model, built first where it is missing.

    Racing processes build it once, and one that is killed leaves nothing that is ever read.
    Raises ConfigurationError when ``cache_dir`` cannot be written.
    """
    path = cache_dir / f"e5-small-{SHA256[:12]}-{GRAPH_VERSION}-{precision}.onnx"
    if path.is_file():
        return path
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with _locked(path.with_suffix(".lock")):
            if not path.is_file():
                _write(path, _build(weights, precision))
    except OSError as error:
        raise ConfigurationError(
            "The embedding model cannot be prepared in {folder}: {reason}.",
            hint="Make the folder writable, with 100 MB free.",
            folder=cache_dir,
            reason=error,
        ) from error
    return path


def _build(weights: Weights, precision: str) -> bytes:
    # onnx costs 60 MB and half a second, and is needed once per installation.
    from rag.providers.e5.graph import build_model

    return build_model(weights, precision)


def _write(path: Path, model: bytes) -> None:
    # One name under the lock: what a killed writer left is written over.
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        file.write(model)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    # The kernel frees the lock of a process that dies; the file stays, it names no owner.
    path.touch(mode=0o600)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


_POSITIONS = 512
_WINDOW = _POSITIONS - 2  # two specials


class E5Embedder:
    """Embeds with E5's prefixes (Wang et al. 2024), one text a run on a pool of threads.

    The model is prepared in ``cache_dir`` at first use (a second, once per installation) and
    loaded once per process. Longer texts than ``max_tokens`` are embedded in windows whose means
    are averaged by length; nothing is cut. ``precision`` int8 is twice as fast as fp32.
    """

    id = "e5:multilingual-e5-small"
    dim = 384
    max_tokens = _WINDOW - 3  # the longer of the prefixes

    def __init__(
        self, precision: str = "int8", threads: int | None = None, *, cache_dir: Path
    ) -> None:
        if precision not in PRECISIONS:
            raise UnknownNameError("e5 precision", precision, PRECISIONS)
        self.tokenizer = E5Tokenizer()
        self.version = (
            f"{precision}/weights-{SHA256[:8]}/graph-{GRAPH_VERSION}"
            f"/tokens-{self.tokenizer.version}/prefix-e5/axis-{CENTRING_VERSION}"
        )
        self._threads = TextThreads(threads)
        self._model = Once(lambda: _Model(SHARED.get(), precision, cache_dir))

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 [n, 384] for texts to be found."""
        return self._stack(self._threads.map(partial(self._centred, role="passage"), texts))

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return float32 [384] for a question."""
        return self._centred(text, role="query")

    def embed_raw(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        """Return the unit vectors [n, 384] before centring: what the model itself says."""
        return self._stack(self._threads.map(partial(self._raw, role=role), texts))

    def _centred(self, text: str, role: Role) -> NDArray[np.float32]:
        return centre(self._raw(text, role), role)

    def _raw(self, text: str, role: Role) -> NDArray[np.float32]:
        ids = self.tokenizer.ids(f"{role}: {text}")
        windows = [ids[at : at + _WINDOW] for at in range(0, len(ids), _WINDOW)]
        model = self._model.get()
        total = np.zeros(self.dim, dtype=np.float32)
        for window in windows:
            total += len(window) * model.run(window)
        return unit_vector(total)

    def _stack(self, vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        return np.stack(vectors) if vectors else np.empty((0, self.dim), dtype=np.float32)


class _Model:
    def __init__(self, weights: Weights, precision: str, cache_dir: Path) -> None:
        self._weights = weights
        kinds = weights.floats("emb.type").reshape(-1, weights.hidden)
        self._places = weights.floats("emb.pos").reshape(-1, weights.hidden) + kinds[0]
        self._edges = weights.specials
        self._session = _open(prepare_model(weights, precision, cache_dir))

    def run(self, ids: Sequence[int]) -> NDArray[np.float32]:
        begin, end = self._edges
        x = self._weights.word_rows([begin, *ids, end]) + self._places[: len(ids) + 2]
        y: NDArray[np.float32] = self._session.run(None, {"x": x[None]})[0][0]
        return y


def _open(path: Path) -> InferenceSession:
    # ONNX Runtime takes 0.2 s and 30 MB, which commands that embed nothing need not pay.
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as states

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if not _has_vnni():
        options.add_session_config_entry("session.x64quantprecision", "1")
    try:
        return onnxruntime.InferenceSession(
            str(path), sess_options=options, providers=["CPUExecutionProvider"]
        )
    except (
        states.Fail,
        states.InvalidArgument,
        states.InvalidGraph,
        states.InvalidProtobuf,
    ) as error:
        raise ConfigurationError(
            "The prepared embedding model {path} is damaged.",
            hint="Delete the file; it is built again.",
            path=path,
        ) from error


def _has_vnni() -> bool:
    # Older x86 processors add pairs of int8 products in 16 bits and may overflow: the same text
    # would get another vector. ONNX Runtime's exact kernel takes 60 % longer, so it is used there
    # only; other processors ignore the option.
    path = Path("/proc/cpuinfo")
    return path.is_file() and "vnni" in path.read_text()
