"""Earlier answers of a branch with what they rest on, as far as it may still be read."""

from __future__ import annotations

from agents import models
from agents.chat.history.evidence import cited_hit, redact_unreadable
from agents.core.pipeline import CitedQuote, EarlierAnswer
from rag.core.access import Scope
from rag.core.types import HOLDING_VERDICTS
from rag.services.answers import pin_hits

# So many messages are looked through for answers: others failed or were stopped.
_LOOKED_THROUGH = 4


def earlier_answers(*, message: models.Message, scope: Scope, n: int) -> list[EarlierAnswer]:
    """Return the last ``n`` answers before a question, oldest first, each with its quotes.

    A quote that its source does not hold is none, nor is one that ``scope`` may not read any more.
    """
    path = models.Message.objects.branch(message.pk, _LOOKED_THROUGH * n + 1)
    rows = [row for row in path.select_related("parent", "session") if row.pk != message.pk]
    answers = [
        row for row in rows if row.role == models.Message.Role.ASSISTANT and row.content.strip()
    ][-n:]
    evidence = redact_unreadable(messages=answers, scope=scope)
    return [
        EarlierAnswer(
            row.parent.content if row.parent else "",
            evidence[row.pk].content,
            tuple(_quotes(row, scope)),
        )
        for row in answers
    ]


def _quotes(row: models.Message, scope: Scope) -> list[CitedQuote]:
    held = [
        one
        for one in row.citations
        if one.get("verdict") in HOLDING_VERDICTS and one.get("chunk_id") is not None
    ]
    hits = pin_hits(hits=[cited_hit(message=row, cited=one) for one in held], scope=scope)
    return [
        CitedQuote(hit, one.get("found") or one.get("quote") or "")
        for hit, one in zip(hits, held, strict=True)
        if hit.text
    ]
