"""Sources put before a prompt. In: prompt, context, wordings. Out: the prompt a model shall see.

Nothing in prompt or context is interpreted: both stand in the result as they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag.stages.terms import is_han


@dataclass(frozen=True, slots=True)
class Wording:
    """What is said in one language: before the prompt, and as numbered rules after it."""

    lead: str
    heading: str
    rules: Sequence[str]


def enhance_prompt(prompt: str, context: str, *, chinese: Wording, english: Wording) -> str:
    """Return context, prompt and rules, worded in the prompt's language.

    A blank context gives the prompt unchanged. A prompt without letters takes the language of
    the context.
    """
    if not context.strip():
        return prompt
    has_letters = any(letter.isalpha() for letter in prompt)
    wording = chinese if is_han(prompt if has_letters else context) else english
    rules = "\n".join(f"{number}. {rule}" for number, rule in enumerate(wording.rules, 1))
    return f"{context}\n\n{wording.lead}{prompt}\n\n{wording.heading}\n{rules}\n"
