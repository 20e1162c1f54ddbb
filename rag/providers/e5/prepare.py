"""Model file cache: the built ONNX graph on disk.

Racing processes build it once; a process killed while building leaves nothing that is ever read.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag.core.errors import ConfigurationError
from rag.providers.e5.weights import SHA256, Weights

PRECISIONS = ("int8", "fp32")
GRAPH_VERSION = 1
"""Goes up whenever ``graph`` writes another model for the same weights."""


def prepare_model(weights: Weights, precision: str, cache_dir: Path) -> Path:
    """Return the path of the model, built first where it is missing.

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
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
