"""Vector decoding: validated numbers as float32 unit vectors, one row per text."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rag.core.errors import ProviderError
from rag.providers.remote.service import RemoteService


def unit_vectors(service: RemoteService, rows: Sequence[object], dim: int) -> NDArray[np.float32]:
    """Return float32 [n, dim], L2-normalised; raise ProviderError for anything else.

    A row is a list of numbers or base64 of little-endian float32; ``dim`` 0 takes any one size.
    """
    decoded = [_decode(service, row) for row in rows]
    wanted = dim or len(decoded[0])
    for row in decoded:
        if len(row) != wanted:
            raise ProviderError(
                "The model {model} makes vectors of {found} numbers, but {wanted} are expected.",
                hint="Set RAG_EMBEDDING_DIM to {found}, or choose the model that the store uses.",
                model=service.model,
                found=len(row),
                wanted=wanted,
            )
    matrix = np.stack(decoded)
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    if not np.isfinite(largest).all() or not (largest > 0).all():
        raise ProviderError(
            "The model {model} made a vector that is zero or not finite.",
            hint="Check the model at {service}.",
            model=service.model,
            service=service.name,
        )
    # Scaled first: squares of very large or small numbers leave the range.
    matrix /= largest
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix.astype(np.float32)


def _decode(service: RemoteService, row: object) -> NDArray[np.float64]:
    try:
        if isinstance(row, str):
            raw = base64.b64decode(row, validate=True)
            decoded = np.frombuffer(raw, dtype="<f4").astype(np.float64)
        else:
            decoded = np.asarray(row, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, binascii.Error):
        raise service.unreadable("a vector that is no list of numbers").error from None
    if decoded.ndim != 1 or not len(decoded):
        raise service.unreadable("a vector that is no list of numbers").error
    return decoded
