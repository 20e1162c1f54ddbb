"""Chat history: messages by key, the branch of a session as it is shown and as a model is told it.

Other branches never count. What an answer said from passages that are deleted or no longer its
owner's to read is shown to no model, and a summary that may hold it counts for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q

from agents import models
from agents.chat.history.evidence import redact_unreadable
from agents.core.state import Turn
from agents.runtime.scopes import is_uuid, owner_scope
from rag.core.access import Scope
from rag.core.errors import NotFoundError


def find_message(*, key: str, scope: Scope) -> models.Message:
    """Return one's own message by its key; raise NotFoundError."""
    found = models.Message.objects.readable(scope).select_related("session__agent", "parent")
    message = found.filter(key=key).first() if is_uuid(key) else None
    if message is None:
        raise NotFoundError("There is no message “{key}”.", key=key)
    return message


MAX_TURNS = 200


@dataclass(frozen=True, slots=True)
class PathTurn:
    """One message of the branch that a session goes on with, and all that share its place."""

    message: models.Message
    alternatives: tuple[str, ...] = ()


def session_path(
    *, session: models.Session, until: str = "", limit: int = MAX_TURNS
) -> list[PathTurn]:
    """Return the last ``limit`` messages up to where the session goes on, with their alternatives.

    ``until`` is the key of another message to end with, such as the parent of the first one of a
    later page; NotFoundError when the session has none of it.
    """
    last = session.head_id
    if until:
        last = session.messages.filter(key=until).values_list("pk", flat=True).first()
        if last is None:
            raise NotFoundError("There is no message “{key}”.", key=until)
    if last is None:
        return []
    path = list(session.messages.branch(last, limit).select_related("parent", "session"))
    places: dict[int | None, list[str]] = {}
    followed = [row.parent_id for row in path if row.parent_id is not None]
    beside = session.messages.filter(parent_id__in=followed)
    if len(followed) < len(path):
        beside |= session.messages.filter(parent_id=None)
    for parent_id, key in beside.order_by("pk").values_list("parent_id", "key"):
        places.setdefault(parent_id, []).append(str(key))
    return [PathTurn(row, tuple(places[row.parent_id])) for row in path]


_FIELDS = ("pk", "role", "content", "summary", "chunk_ids")
_RESTS_ON = (
    "content",
    "sources",
    "citations",
    "grounding",
    "query",
    "chunk_ids",
    "parent__content",
    "session__user",
    "session__widget",
    "session__visitor",
    "session__only_store_ids",
)
_ANSWER = models.Message.Role.ASSISTANT


@dataclass(frozen=True, slots=True)
class BranchTurn:
    """One turn of a branch, with its row and what it rests on."""

    message_id: int
    turn: Turn
    summary: str = ""
    chunk_ids: tuple[int, ...] = ()


def branch_turns(*, message: models.Message) -> list[BranchTurn]:
    """Return the turns up to a message, itself included, oldest first, at most 200.

    What was never finished stands with what there is of it; empty turns are left out.
    """
    # Answers that failed are empty: there may be as many of them.
    rows = list(models.Message.objects.branch(message.pk, 2 * MAX_TURNS).values_list(*_FIELDS))
    today = _today([pk for pk, role, *_ in rows if role == _ANSWER])
    found: list[BranchTurn] = []
    has_lost = False
    for pk, role, content, summary, chunk_ids in rows:
        has_lost = has_lost or pk in today
        if content.strip():
            turn: Turn = {"role": role, "content": today.get(pk, content)}
            found.append(BranchTurn(pk, turn, "" if has_lost else summary, tuple(chunk_ids)))
    return found[-MAX_TURNS:]


def _today(answer_ids: list[int]) -> dict[int, str]:
    """Return what is left of those answers that rest on something that is gone."""
    resting = models.Message.objects.filter(pk__in=answer_ids)
    resting = resting.exclude(Q(citations=[]) & Q(sources=[]) & Q(chunk_ids=[]))
    answers = list(resting.select_related("session__user", "parent").only(*_RESTS_ON))
    if not answers:
        return {}
    scope = owner_scope(session=answers[0].session)
    evidence = redact_unreadable(messages=answers, scope=scope)
    return {one.pk: evidence[one.pk].content for one in answers if evidence[one.pk].is_reduced}


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
