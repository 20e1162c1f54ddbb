"""Chat history for the model: turns of one branch, oldest first, and the summary before them.

Other branches never count. What an answer said from passages that are deleted or no longer its
owner's to read is shown to no model, and a summary that may hold it counts for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents import models
from agents.chat.history.evidence import redact_unreadable
from agents.core.state import Turn
from agents.runtime.scopes import owner_scope

MAX_TURNS = 200
_FIELDS = ("pk", "role", "content", "summary")
_RESTS_ON = ("content", "sources", "citations", "session__user", "session__only_store_ids")
_ANSWER = models.Message.Role.ASSISTANT


@dataclass(frozen=True, slots=True)
class BranchTurn:
    """One turn of a branch, with its row."""

    message_id: int
    turn: Turn
    summary: str = ""


def branch_turns(*, message: models.Message) -> list[BranchTurn]:
    """Return the turns up to a message, itself included, oldest first, at most 200.

    What was never finished stands with what there is of it; empty turns are left out.
    """
    # Answers that failed are empty: there may be as many of them.
    rows = list(models.Message.objects.branch(message.pk, 2 * MAX_TURNS).values_list(*_FIELDS))
    today = _today([pk for pk, role, *_ in rows if role == _ANSWER])
    found: list[BranchTurn] = []
    has_lost = False
    for pk, role, content, summary in rows:
        has_lost = has_lost or pk in today
        if content.strip():
            turn: Turn = {"role": role, "content": today.get(pk, content)}
            found.append(BranchTurn(pk, turn, "" if has_lost else summary))
    return found[-MAX_TURNS:]


def _today(answer_ids: list[int]) -> dict[int, str]:
    """Return what is left of those answers that rest on something that is gone."""
    resting = models.Message.objects.filter(pk__in=answer_ids).exclude(citations=[])
    answers = list(resting.select_related("session__user").only(*_RESTS_ON))
    if not answers:
        return {}
    scope = owner_scope(session=answers[0].session)
    evidence = redact_unreadable(messages=answers, scope=scope)
    return {
        one.pk: evidence[one.pk].content
        for one in answers
        if evidence[one.pk].content != one.content
    }


def history_before(*, message: models.Message, is_included: bool = False) -> tuple[list[Turn], str]:
    """Return the turns before a message that no summary covers, and that summary.

    ``is_included`` counts the message itself among them.
    """
    said = branch_turns(message=message)
    if not is_included and said and said[-1].message_id == message.pk:
        said.pop()
    for number in range(len(said) - 1, -1, -1):
        if said[number].summary:
            return [one.turn for one in said[number + 1 :]], said[number].summary
    return [one.turn for one in said], ""
