"""Citations as lines below a text, for who shows nothing else. In: citations. Out: lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_RULE = "\n\n---\n"
_BLOCK = re.compile(rf"{_RULE}(?:\[\d+\] [^\n]*(?:\n|\Z))+\Z")


def footnotes(*, citations: Sequence[Mapping[str, Any]], text: str) -> str:
    """Return the lines of those citations that ``text`` has a mark of, below a rule; or nothing."""
    lines = [_line(one) for one in citations if f"[{one['number']}]" in text]
    return _RULE + "\n".join(lines) if lines else ""


def without_footnotes(*, text: str) -> str:
    """Return a text as it was before ``footnotes`` were added."""
    return _BLOCK.sub("", text)


def _line(cited: Mapping[str, Any]) -> str:
    page = f", p. {cited['page']}" if cited.get("page") else ""
    mark = "" if cited["verdict"] == "verified" else f" ({cited['verdict']})"
    quote = " ".join(str(cited["quote"]).split())
    return f"[{cited['number']}] {cited.get('file_name') or '?'}{page}: “{quote}”{mark}"
