"""What people do with their conversations. In: a row, who asks, values. Out: the row, changed."""

from __future__ import annotations

from django.db import transaction

from agents import models
from agents.services.chat_claim import end_abandoned
from rag.core.errors import ConflictError, InvalidInputError

MAX_TITLE, MAX_COMMENT = 200, 2000
_STATUS = models.Message.Status


def change_session(*, session: models.Session, title: str) -> models.Session:
    """Give a session another title; raise InvalidInputError for an empty one."""
    title = " ".join(title.replace("\0", "").split())
    if not title or len(title) > MAX_TITLE:
        raise InvalidInputError(
            "A title has 1 to {limit} characters.", hint="Give another.", limit=MAX_TITLE
        )
    session.title = title
    session.save(update_fields=["title", "updated_at"])
    return session


def branch_from(*, message: models.Message) -> models.Session:
    """Let the session go on from a message: what came after it stays, as another branch.

    Raises ConflictError while it is being written.
    """
    end_abandoned(message_id=message.pk)
    with transaction.atomic():
        session = models.Session.objects.select_for_update().get(pk=message.session_id)
        message.refresh_from_db(fields=["status"])
        if message.status == _STATUS.RUNNING:
            raise ConflictError(
                "The answer before is still being written.", hint="Wait for it, or stop it."
            )
        session.head = message
        session.save(update_fields=["head", "updated_at"])
    return session


def give_feedback(
    *, message: models.Message, feedback: int | None, comment: str = ""
) -> models.Message:
    """Keep what somebody thinks of an answer: 1, -1 or None, with a comment."""
    if message.role != models.Message.Role.ASSISTANT:
        raise InvalidInputError("The message “{key}” is no answer.", key=message.key)
    if feedback not in (1, -1, None):
        raise InvalidInputError("Feedback is 1, -1 or null.")
    message.feedback = feedback
    message.feedback_comment = comment.replace("\0", "").strip()[:MAX_COMMENT]
    message.save(update_fields=["feedback", "feedback_comment"])
    return message


def delete_session(*, session: models.Session) -> None:
    """Delete a conversation with all that was said in it."""
    session.delete()
