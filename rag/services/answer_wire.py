"""A grounded answer as the client of file search knows it. In: an answer. Out: JSON."""

from __future__ import annotations

from typing import Any

from rag.core.file_search import GroundedAnswer
from rag.core.node import MULTIMODAL


def answer_wire(answer: GroundedAnswer, mode: str) -> dict[str, Any]:
    """Return documents, citations (left out without any), and the answer itself as an extra.

    ``documents`` are the chunks that were used; the answer where there are none, and always for
    files sent along. A citation is told once, however many claims rest on it.
    """
    is_whole = mode == MULTIMODAL or not answer.documents
    wire: dict[str, Any] = {
        "documents": [answer.text] if is_whole else list(answer.documents),
        "answer": answer.text,
    }
    places = dict.fromkeys((one.source, one.chunk) for one in answer.groundings)
    if places:
        wire["citations"] = [{"source": source, "chunk": chunk} for source, chunk in places]
    if answer.notice:
        wire["notice"] = answer.notice
    return wire
