"""Question condensation by rules: a follow-up made to stand alone, a node's input inferred."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rag.stages.prompting.templates import META
from rag.stages.query.analyze import analyze_query

_PRONOUN = re.compile(
    r"它们?|他们?|她们?|(?:这|那)(?:个|款|台|种|件|份|样)(?![\u3400-\u9fff]{2})|其(?=[^实中他余它])|该(?=[\u3400-\u9fff])"
    r"|\b(?:it|its|they|them|their|this one|that one|this|that|these|those)\b",
    re.I,
)
_LEAD = re.compile(r"^(?:那么?|还有|另外|然后|and|but|so|then|also)[\s，,]*", re.I)
# Names that things have, before words that may be anything.
_TYPES = ("identifier", "product", "title", "quote", "organization", "person", "place")


def condense_question(query: str, before: str) -> tuple[str, str]:
    """Return a question that stands alone, and how: ``entity`` or ``joined``.

    ``entity``: the first pronoun gives way to the thing that the question before named.
    ``joined``: it named no such thing, so both stand side by side.
    """
    thing = _named(before)
    if thing and (match := _PRONOUN.search(query)):
        word = match.group()
        possessive = f"{thing}'s" if word.lower() in ("its", "their") else thing
        put = f"{thing}的" if word == "其" else possessive
        text = query[: match.start()] + put + query[match.end() :]
        return _LEAD.sub("", text, count=1).strip(), "entity"
    return f"{before.strip()} {query.strip()}", "joined"


def _named(text: str) -> str:
    found = analyze_query(text, {}).entities
    for kind in _TYPES:
        for entity in found:
            if entity.type == kind:
                return entity.value
    return ""


# What nodes call the words that people or models wrote, likeliest first.
FIELDS = (
    "user_input",
    "query",
    "question",
    "input",
    "message",
    "prompt",
    "text",
    "content",
    "output",
    "response",
    "answer",
    "result",
)


def infer_question(context: Mapping[str, Any]) -> str:
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
