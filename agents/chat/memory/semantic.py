"""Fact extraction by a model: the prompt, and the new and outdated facts of its answer.

Only what the person said is read, never an answer or a document: nothing that a document claims
can become a memory. What looks like a secret is not kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from agents.chat.memory.facts import (
    HAN,
    MAX_FACTS,
    Fact,
    memory_key,
    mentions_secret,
    storable_text,
)
from agents.chat.memory.facts import MAX_FACT_CHARACTERS as MAX_CHARACTERS
from agents.core.parse_output import find_json_objects
from agents.core.prompts import prompt_file

MAX_SAID = 4000
_NUMBERS = {"type": "array", "items": {"type": "integer"}}
_FACT = {
    "type": "object",
    "properties": {
        "subject": {"type": "string"},
        "text": {"type": "string"},
        "replaces": _NUMBERS,
    },
    "required": ["subject", "text"],
}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"facts": {"type": "array", "items": _FACT}, "outdated": _NUMBERS},
    "required": ["facts"],
}


def facts_prompt(said: str, known: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Return what a model is told and given: the rules; as data, known facts and what was said."""
    listed = "\n".join(
        f'<fact id="{number}" subject="{_data(subject)}">{_data(text)}</fact>'
        for number, (subject, text) in enumerate(known, start=1)
    )
    data = f"<known>\n{listed}\n</known>\n<said>{_data(said[:MAX_SAID])}</said>"
    return prompt_file(f"facts_{'zh' if HAN.search(said) else 'en'}"), data


def parse_facts(answer: str, n_known: int) -> tuple[list[Fact], tuple[int, ...]] | None:
    """Return the facts of a model's answer and the numbers of those outdated; None: it has none.

    What does not fit the schema is left out, and so is what looks like a secret.
    """
    whole = next(
        (one for one in find_json_objects(answer) if isinstance(one.get("facts"), list)), None
    )
    if whole is None:
        return None
    read = (_fact(one, n_known) for one in whole["facts"][:MAX_FACTS])
    return [fact for fact in read if fact], _numbers(whole.get("outdated"), n_known)


def _fact(one: Any, n_known: int) -> Fact | None:
    text = one.get("text") if isinstance(one, Mapping) else None
    if not isinstance(text, str) or len(text) > MAX_CHARACTERS or mentions_secret(text):
        return None
    given = one.get("subject")
    subject = memory_key(given if isinstance(given, str) and given.strip() else text)
    kept = " ".join(storable_text(text).split())
    return Fact(subject, kept, _numbers(one.get("replaces"), n_known)) if subject and kept else None


def _data(text: str) -> str:
    return escape(storable_text(text), {'"': "&quot;"})


def _numbers(values: Any, limit: int) -> tuple[int, ...]:
    if not isinstance(values, list):
        return ()
    return tuple(n for n in values if type(n) is int and 1 <= n <= limit)
