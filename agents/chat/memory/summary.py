"""Session summary: a rolling summary within a token budget, by the model or by truncation."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from agents.core.prompts import fill_prompt
from agents.core.state import Turn
from rag.core.errors import ProviderError

_HAN = re.compile(r"[\u3400-\u9fff]")
_SHOWN = 1500
_ANSWER = 160
log = logging.getLogger(__name__)
Ask = Callable[[str, str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class SummaryBudget:
    """How long a summary may be, as ``count`` has the tokens of a text."""

    max_tokens: int
    count: Callable[[str], int]

    def cut(self, text: str) -> str:
        """Return the text's end within the budget, from the start of a line or word."""
        while text and (n := self.count(text)) > self.max_tokens:
            drop = max(1, len(text) * (n - self.max_tokens) // n)
            rest = text[drop:]
            gap = re.search(r"[\s。；;]", rest)
            text = rest[gap.end() :] if gap and gap.end() < len(rest) else rest
        return text.strip()


async def roll_summary(
    summary: str,
    turns: Sequence[Turn],
    budget: SummaryBudget,
    prompts: tuple[str, str],
    ask: Ask | None = None,
) -> str:
    """Return a summary of both; ``prompts`` are the Chinese and the English one for ``ask``.

    ``ask`` takes a system and a user text and returns the answer; without it, or when it fails or
    writes nothing, the summary is cut from what was said.
    """
    if not turns or budget.max_tokens < 1:
        return summary
    said = "\n".join(turn["content"] for turn in turns)
    is_chinese = len(_HAN.findall(said)) > 0.2 * max(1, len(said))
    if ask is not None:
        prompt = fill_prompt(prompts[0 if is_chinese else 1], {"words": str(budget.max_tokens)})
        try:
            written = (await ask(prompt, _data(summary, turns))).strip()
        except ProviderError as error:
            log.warning("The summary of a session is cut and not written: %s", error)
        else:
            if written:
                return budget.cut(written)
    return budget.cut("\n".join(filter(None, [summary, *map(_line, turns)])))


def _data(summary: str, turns: Sequence[Turn]) -> str:
    told = "\n".join(
        f'<turn role="{turn["role"]}">{escape(turn["content"][:_SHOWN])}</turn>' for turn in turns
    )
    return f"<summary>{escape(summary)}</summary>\n<turns>\n{told}\n</turns>"


def _line(turn: Turn) -> str:
    text = " ".join(turn["content"].split())
    mark = "Q: " if turn["role"] == "user" else "A: "
    return mark + (text if len(text) <= _ANSWER else f"{text[:_ANSWER]}…")
