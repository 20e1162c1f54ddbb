"""Session operations: rename, branch, feedback, delete."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from agents import models
from agents.chat.answers.event_log import fail_abandoned
from agents.chat.answers.worker import AnswerWorker
from agents.chat.history.titles import titled
from rag.core.access import Scope
from rag.core.errors import ConflictError, InvalidInputError
from rag.services.search import purge_queries

MAX_TITLE, MAX_COMMENT = 200, 2000
_STATUS = models.Message.Status


def rename_session(*, session: models.Session, title: str) -> models.Session:
    """Give a session another title; raise InvalidInputError for an empty one."""
    title = " ".join(title.replace("\0", "").split())
    if not title or len(title) > MAX_TITLE:
        raise InvalidInputError(
            "A title has 1 to {limit} characters.", hint="Give another.", limit=MAX_TITLE
        )
    session.title, session.titled_by = title, models.Session.TitledBy.PERSON
    session.save(update_fields=["title", "titled_by", "updated_at"])
    return session


def sessions_with_words(
    *, rows: QuerySet[models.Session], text: str, scope: Scope
) -> QuerySet[models.Session]:
    """Return the sessions with a text in their title, as ``scope`` reads it, or in a question.

    Answers are not looked through: they may hold what their reader may not read any more.
    """
    asked = models.Message.objects.filter(
        session=OuterRef("pk"), role=models.Message.Role.USER, content__icontains=text
    )
    shown = titled(rows=rows, part=text, scope=scope)
    return rows.filter(Q(pk__in=shown.values("pk")) | Q(Exists(asked)))


def branch_from(*, message: models.Message) -> models.Session:
    """Let the session go on from a message: what came after it stays, as another branch.

    Raises ConflictError while it is being written.
    """
    fail_abandoned(message_id=message.pk)
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


def record_feedback(
    *, message: models.Message, feedback: int | None, comment: str = ""
) -> models.Message:
    """Keep what somebody thinks of an answer: 1, -1 or None, with a comment.

    An answer that is called bad is not remembered.
    """
    if message.role != models.Message.Role.ASSISTANT:
        raise InvalidInputError("The message “{key}” is no answer.", key=message.key)
    if feedback not in (1, -1, None):
        raise InvalidInputError("Feedback is 1, -1 or null.")
    message.feedback = feedback
    message.feedback_comment = comment.replace("\0", "").strip()[:MAX_COMMENT]
    with transaction.atomic():
        message.save(update_fields=["feedback", "feedback_comment"])
        if feedback == -1:
            message.memories.filter(kind=models.Memory.Kind.EPISODIC).delete()
    return message


def delete_session(*, session: models.Session, keeps_memories: bool = False) -> None:
    """Delete a conversation with all that was said in it; what was remembered from it, too.

    ``keeps_memories`` lets that stay. An answer that is being written is stopped: here at once, in
    another process within two seconds; nothing of it is stored. The query log keeps its figures
    and loses the words.
    """
    for pk in session.messages.filter(status=_STATUS.RUNNING).values_list("pk", flat=True):
        AnswerWorker.stop_local(pk)
    with transaction.atomic():
        # The session first, as who ends an answer does, or both would wait for each other.
        models.Session.objects.select_for_update().filter(pk=session.pk).first()
        # Whoever writes an event or a memory of it at this moment waits, and is refused then.
        messages = session.messages.order_by("pk").select_for_update()
        said = list(messages.values_list("content", "query"))
        if keeps_memories:
            session.memories.update(session=None, message=None)
        session.delete()
        if session.user_id is not None:
            words = [text for pair in said for text in pair]
            purge_queries(user_id=session.user_id, queries=words)
