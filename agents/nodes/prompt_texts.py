"""Our own prompts. In: a file's name in ``agents/prompts``. Out: its text."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

_FOLDER = Path(__file__).resolve().parents[1] / "prompts"


@lru_cache(maxsize=32)
def prompt_text(name: str) -> str:
    """Return the text of a prompt, read once a process."""
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8")
