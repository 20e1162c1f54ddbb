"""What was said before. In: a message. Out: turns, oldest first, and a summary of what was earlier.

Only the branch that leads to the message counts: what was said in another one was never said here.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents import models
from agents.core.state import Turn

MAX_TURNS = 200
_FIELDS = ("pk", "role", "content", "summary")


@dataclass(frozen=True, slots=True)
class Said:
    """One turn of a branch, with its row."""

    message_id: int
    turn: Turn
    summary: str = ""


def branch_of(*, message: models.Message) -> list[Said]:
    """Return the turns up to a message, itself included, oldest first, at most 200.

    What was never finished stands with what there is of it; empty turns are left out.
    """
    # Answers that failed are empty: there may be as many of them.
    rows = models.Message.objects.branch(message.pk, 2 * MAX_TURNS).values_list(*_FIELDS)
    found = [
        Said(pk, {"role": role, "content": content}, summary)
        for pk, role, content, summary in rows
        if content.strip()
    ]
    return found[-MAX_TURNS:]


def history_before(*, message: models.Message, is_included: bool = False) -> tuple[list[Turn], str]:
    """Return the turns before a message that no summary covers, and that summary.

    ``is_included`` counts the message itself among them.
    """
    said = branch_of(message=message)
    if not is_included and said and said[-1].message_id == message.pk:
        said.pop()
    for number in range(len(said) - 1, -1, -1):
        if said[number].summary:
            return [one.turn for one in said[number + 1 :]], said[number].summary
    return [one.turn for one in said], ""
