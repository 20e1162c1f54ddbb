"""Parameters of OpenAI's requests that are no fields of ours: ignored and told, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag.core.errors import InvalidInputError

# What each may be, besides null, without anybody missing anything. Who asks for more would take the
# answer for what it is not; all other names, which many clients send unasked, are only told.
_REFUSED: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "logprobs": (False, 0),
    "top_logprobs": (0,),
    "tools": ([],),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "guided_json": (),
    "guided_regex": (),
    # Of /responses.
    "background": (False,),
    "conversation": (),
    "include": ([],),
    "prompt": (),
    "text": ({"format": {"type": "text"}}, {}),
}


def check_parameters(given: Mapping[str, Any]) -> list[str]:
    """Return the names of what has no effect; raise InvalidInputError for what cannot be done."""
    ignored = []
    for name, value in given.items():
        if value is None:
            continue
        if name not in _REFUSED:
            ignored.append(name)
        elif value not in _REFUSED[name] and not _is_idle_tools(name, given):
            raise InvalidInputError(
                "“{param}” cannot be done here with this value.",
                hint="Leave it out: an agent answers with one text and calls its own tools.",
                param=name,
                code="unsupported_parameter",
            )
    return sorted(ignored)


def _is_idle_tools(name: str, given: Mapping[str, Any]) -> bool:
    return name == "tools" and given.get("tool_choice") == "none"
