"""Prompt files of ``agents/prompts``, their ``{name}`` placeholders, and their language."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).resolve().parents[1] / "prompts"


@lru_cache(maxsize=64)
def prompt_file(name: str) -> str:
    """Return the text of a prompt, read once a process."""
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8")


_PLACEHOLDER = re.compile(r"\{([^\W\d]\w*)\}")


def placeholders(prompt: str) -> tuple[str, ...]:
    """Return the names that stand in single braces, once each, in order.

    ``{"key": 1}``, ``{ name }`` and ``{name.field}`` are no placeholders.
    """
    return tuple(dict.fromkeys(match[1] for match in _PLACEHOLDER.finditer(prompt)))


def fill_prompt(prompt: str, values: Mapping[str, Any], *, missing: str | None = None) -> str:
    """Return the prompt with each known ``{name}`` replaced; ``missing`` stands for an unknown one.

    Without it that stays as it is.

    Texts go in as they are and are not looked at again; other values as JSON, None as nothing.
    """

    def filled(match: re.Match[str]) -> str:
        if match[1] not in values:
            return match[0] if missing is None else missing
        value = values[match[1]]
        if value is None or isinstance(value, str):
            return value or ""
        return json.dumps(value, ensure_ascii=False, default=str)

    return _PLACEHOLDER.sub(filled, prompt)


_HAN = re.compile(r"[\u3400-\u9fff]")
_LETTER = re.compile(r"[^\W\d_]")


def language_of(text: str) -> str:
    """Return zh or en, by the letters of a text."""
    n_han = len(_HAN.findall(text))
    return "zh" if n_han and n_han >= 0.3 * len(_LETTER.findall(text)) else "en"
