"""OpenAI's Responses: an answer as its response object, and its citations as annotations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_MARK = re.compile(r"\[(\d{1,4})\]")
_KEPT = ("number", "verdict", "quote", "page", "document_id", "chunk_id", "char_start", "char_end")


def citation_annotations(
    *, text: str, citations: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return a ``file_citation`` for each mark ``[n]`` of the text, with its place there.

    ``citable`` has what OpenAI's annotation has no field for: number, quote, verdict, page.
    """
    known = {one["number"]: one for one in citations}
    found = []
    for mark in _MARK.finditer(text):
        cited = known.get(int(mark[1]))
        if cited is not None:
            name = cited.get("file_name") or "?"
            found.append(
                {
                    "type": "file_citation",
                    "file_id": f"file-{cited.get('file_id') or cited.get('doc_id') or name}",
                    "filename": name,
                    "index": mark.start(),
                    "citable": {one: cited.get(one) for one in _KEPT},
                }
            )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    """What a response tells from its beginning on; ``key`` is that of the answer's message."""

    key: str
    created: int
    model: str
    asked: Mapping[str, Any] = field(default_factory=dict)

    @property
    def message_id(self) -> str:
        """Return the id of its one output item."""
        return f"msg_{self.key}"

    def content(self, text: str, found: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """Return the content part."""
        return {"type": "output_text", "text": text, "annotations": list(found), "logprobs": []}

    def item(self, status: str, content: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """Return the output item."""
        return {
            "type": "message",
            "id": self.message_id,
            "status": status,
            "role": "assistant",
            "content": list(content),
        }

    def as_dict(
        self,
        status: str,
        *,
        output: Sequence[Mapping[str, Any]] = (),
        usage: Mapping[str, int] | None = None,
        error: Mapping[str, Any] | None = None,
        reason: str = "",
    ) -> dict[str, Any]:
        """Return the response object; ``reason`` is why it is incomplete."""
        return {
            "id": f"resp_{self.key}",
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": False,
            "error": error,
            "incomplete_details": {"reason": reason} if reason else None,
            "instructions": None,
            "max_output_tokens": None,
            "metadata": {},
            "model": self.model,
            "output": list(output),
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "store": True,
            "temperature": None,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "truncation": "disabled",
            "usage": _usage(usage),
            "user": None,
            **self.asked,
        }


def _usage(counted: Mapping[str, int] | None) -> dict[str, Any] | None:
    if counted is None:
        return None
    return {
        "input_tokens": counted["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": counted["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": counted["total_tokens"],
    }
