"""What a node is probably asked, where nothing says so. In: earlier outputs. Out: a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag.stages.resolve import META

# What nodes call the words that people or models wrote, likeliest first.
FIELDS = (
    "user_input", "query", "question", "input", "message", "prompt", "text", "content", "output",
    "response", "answer", "result",
)  # fmt: skip


def find_text(context: Mapping[str, Any]) -> str:
    """Return the text of the nearest node upstream that has one, empty when none has.

    ``context`` maps nodes, in the order in which they ran, to outputs. Of an output with several
    texts the likeliest field is taken; addresses are none.
    """
    for node, output in reversed(list(context.items())):
        if node != META and (text := _text_of(output)):
            return text
    return ""


def _text_of(output: Any) -> str:
    if isinstance(output, str):
        return output.strip()
    if not isinstance(output, Mapping):
        return ""
    for name in (*FIELDS, *output):
        value = output.get(name)
        if isinstance(value, str) and value.strip() and not _is_address(value):
            return value.strip()
    return ""


def _is_address(value: str) -> bool:
    return value.strip().startswith(("http://", "https://", "data:")) and " " not in value.strip()
