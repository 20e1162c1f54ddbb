"""Which chat models write. In: a model's id. Out: whether it writes, or only quotes."""

from __future__ import annotations


def can_write(*, model_id: str) -> bool:
    """Return whether a chat model writes text of its own: the offline default only quotes."""
    return not model_id.startswith("extractive:")
