"""Parameters of OpenAI's protocol that no field reads. In: them. Out: those ignored, or a refusal.

What only tunes a model is left out and named in the answer; what would change the answer's shape,
such as tools or several choices, is refused; a name that nobody knows is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag.core.errors import InvalidInputError

_TUNING = frozenset({
    "top_p", "presence_penalty", "frequency_penalty", "seed", "logit_bias", "reasoning_effort",
    "verbosity", "service_tier", "store", "metadata", "user", "safety_identifier",
    "prompt_cache_key", "prompt_cache_retention", "parallel_tool_calls", "tool_choice",
    # Of the local servers, which many clients send without being asked.
    "top_k", "min_p", "repetition_penalty", "repeat_penalty", "num_ctx", "keep_alive",
    "chat_template_kwargs", "enable_thinking", "thinking", "reasoning",
})  # fmt: skip
# What each may be, besides null, without anybody missing anything.
_REFUSED: dict[str, tuple[Any, ...]] = {
    "n": (1,), "logprobs": (False, 0), "top_logprobs": (0,), "tools": ([],), "functions": ([],),
    "function_call": ("none", "auto"), "response_format": ({"type": "text"},),
    "modalities": (["text"],), "audio": (), "prediction": (), "web_search_options": (),
    "best_of": (1,), "echo": (False,), "suffix": ("",), "guided_json": (), "guided_regex": (),
}  # fmt: skip


def read_parameters(given: Mapping[str, Any], known: frozenset[str] = _TUNING) -> list[str]:
    """Return the names of what has no effect; raise InvalidInputError for what cannot be done."""
    ignored = []
    for name, value in given.items():
        if value is None:
            continue
        if name in _REFUSED:
            if value not in _REFUSED[name] and not _is_idle_tools(name, given):
                raise InvalidInputError(
                    "“{param}” cannot be done here with this value.",
                    hint="Leave it out: an agent answers with one text and calls its own tools.",
                    param=name, code="unsupported_parameter",
                )  # fmt: skip
        elif name in known:
            ignored.append(name)
        else:
            raise InvalidInputError(
                "There is no parameter “{param}”.", hint="Check its spelling, or leave it out.",
                param=name[:100], code="unknown_parameter",
            )  # fmt: skip
    return sorted(ignored)


def _is_idle_tools(name: str, given: Mapping[str, Any]) -> bool:
    return name == "tools" and given.get("tool_choice") == "none"
