"""Creating an answer: checks a message request and writes session, question and answer rows."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext_noop

from agents import models
from agents.chat.agents.agent import agent_stores
from agents.chat.agents.agent_exposure import agent_exposure
from agents.chat.answers.event_log import fail_abandoned
from agents.chat.history.history import find_message
from agents.chat.history.titles import title_of_question
from agents.core.page_context import PageContext
from agents.runtime.outbound import check_exposure
from agents.runtime.scopes import is_uuid, owner_scope
from agents.runtime.worker import new_lease
from rag.core.access import Scope
from rag.core.errors import ConflictError, InvalidInputError, NotFoundError
from rag.services.tokens import count_tokens
from rag.services.usage import check_budget

MAX_CHARACTERS = 8000
_CHARACTERS_OF_TOKEN = 12
# So long a key without a budget is not asked for one again: a new one counts a second later.
FREE_S = 1.0
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_WRITTEN = gettext_noop("The answer before is still being written.")
_HINT = gettext_noop("Wait for it, or stop it.")
_STATUS = models.Message.Status


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRequest:
    """What is asked: a ``message``, or an answer's key to ``regenerate``.

    ``context`` is what a page sends along; an answer that is written again has the first one's.
    ``session`` is a key, empty for a new one; ``parent`` is the key of the message to go on from,
    empty for the end of the session. ``stores`` are names. ``is_repeatable``: its row has all that
    another process needs to begin it again.
    """

    agent: models.Agent
    scope: Scope
    message: str = ""
    session: str = ""
    parent: str = ""
    regenerate: str = ""
    stores: Sequence[str] = ()
    context: PageContext = field(default_factory=PageContext)
    is_repeatable: bool = True


@dataclass(frozen=True, slots=True)
class StartedAnswer:
    """The answer's row, claimed for this process, its question, and where the agent looks.

    ``hosts`` are those that may be told what the agent's author may not read, as was granted.
    ``free_until`` is that of ``rag.core.request_context.UsageAccount``: the key has no budget.
    """

    order: MessageRequest
    answer: models.Message
    question: models.Message
    stores: list[Any] = field(default_factory=list)
    context: PageContext = field(default_factory=PageContext)
    free_until: float = 0.0
    hosts: Sequence[str] = ()


def create_session(*, agent: models.Agent, scope: Scope, text: str) -> models.Session:
    """Return a session of ``scope``, seen with the like of its key alone; ``text`` is its title."""
    only, visitor = scope.only_store_ids, scope.visitor
    return models.Session.objects.create(
        agent_id=agent.pk,
        user_id=scope.user_id,
        widget_id=visitor.widget_id if visitor else None,
        visitor=visitor.digest if visitor else "",
        only_store_ids=None if only is None else sorted(only),
        title=title_of_question(text),
    )


def create_answer(*, order: MessageRequest) -> StartedAnswer:
    """Write question and answer down; raise for wrong input, nothing is written then.

    Raises NotFoundError for a session or message of somebody else, ConflictError while the answer
    before is being written.
    """
    has_budget = check_budget(key_id=order.scope.key_id)
    free_until = 0.0 if has_budget else time.monotonic() + FREE_S
    order.agent.settings  # noqa: B018  a wrong config is told before anything is written
    names, context, first = order.stores, order.context, None
    if order.regenerate:
        first = find_message(key=order.regenerate, scope=order.scope)
        # An answer that is written again takes stores and context of the first one.
        names = names or first.request.get("stores") or ()
        context = context or PageContext.from_dict(first.request.get("context") or {})
    stores = agent_stores(agent=order.agent, scope=order.scope, names=names)
    with transaction.atomic():
        question = _again(order, first) if first else _asked(order)
        # What the conversation before rests on is shown to the model as well.
        before = question.parent.chunk_ids if question.parent else []
        exposure = agent_exposure(agent=order.agent, scope=order.scope, chunk_ids=before)
        check_exposure(subject=order.agent, exposure=exposure)
        answer = models.Message.objects.create(
            session=question.session,
            parent=question,
            role=models.Message.Role.ASSISTANT,
            status=_STATUS.RUNNING,
            **new_lease(),
            chunk_ids=before,
            request={
                "stores": [store.slug for store in stores] if names else [],
                "context": context.as_dict(),
                "key_id": order.scope.key_id,
                "n_starts_left": 1 if order.is_repeatable else 0,
            },
        )
        _lead_on(question.session, answer, order)
    return StartedAnswer(
        order, answer, question, stores, context, free_until, exposure.marked_hosts
    )


def check_length(text: str, agent: models.Agent, always: int = MAX_CHARACTERS) -> None:
    """Raise InvalidInputError for a text of more tokens than the agent's context has.

    So many characters as ``always`` says are taken by every agent.
    """
    limit = agent.settings.context_tokens
    # No token of a text that people write is so long; nobody counts a flood.
    is_flood = len(text) > limit * _CHARACTERS_OF_TOKEN
    if len(text) <= always or (not is_flood and count_tokens(text) <= limit):
        return
    raise InvalidInputError(
        "The message has {n} characters, which is more than fits into the agent's context.",
        hint="Shorten it, or raise context_tokens of the agent ({limit}).",
        n=len(text),
        limit=limit,
        param="messages",
    )


def adopt_answer(*, message_id: int) -> StartedAnswer | None:
    """Return an answer that was left, claimed for this process; None where nobody need go on.

    It has the rights that who asked has now. Raises what ``create_answer`` raises.
    """
    rows = models.Message.objects.filter(pk=message_id, status=_STATUS.RUNNING, worker=None)
    lease = new_lease()
    if not rows.update(**lease):
        return None
    joined = models.Message.objects.select_related("parent__parent", "session__agent__owner")
    answer = joined.select_related("session__user", "session__widget__group").get(pk=message_id)
    question, agent = answer.parent, answer.session.agent
    if question is None or agent is None or not agent.is_enabled:
        raise ConflictError("The agent is not there any more.", hint="Ask another.")
    scope = replace(owner_scope(session=answer.session), key_id=answer.request.get("key_id"))
    names = answer.request.get("stores") or ()
    exposure = agent_exposure(agent=agent, scope=scope, chunk_ids=answer.chunk_ids)
    check_exposure(subject=agent, exposure=exposure)
    stores = agent_stores(agent=agent, scope=scope, names=names)
    context = PageContext.from_dict(answer.request.get("context") or {})
    order = MessageRequest(agent=agent, scope=scope, message=question.content)
    return StartedAnswer(order, answer, question, stores, context, hosts=exposure.marked_hosts)


def _asked(order: MessageRequest) -> models.Message:
    text = _UNSTORABLE.sub("", order.message).strip()
    if not text:
        raise InvalidInputError("The message is empty.", hint="Ask something.")
    check_length(text, order.agent)
    parent = find_message(key=order.parent, scope=order.scope) if order.parent else None
    session = parent.session if parent else _session(order, text)
    _check_agent(session, order)
    if order.session and parent and str(session.key) != order.session:
        raise InvalidInputError("The message “{key}” is of another session.", key=order.parent)
    if parent is None and session.head_id is not None:
        parent = models.Message.objects.get(pk=session.head_id)
    _refuse_running(parent)
    return models.Message.objects.create(
        session=session, parent=parent, role=models.Message.Role.USER, content=text
    )


def _again(order: MessageRequest, answer: models.Message) -> models.Message:
    if order.message or order.parent:
        raise InvalidInputError(
            "An answer is written again to its own question.", hint="Leave out message and parent."
        )
    if answer.role != models.Message.Role.ASSISTANT or answer.parent is None:
        raise InvalidInputError("The message “{key}” is no answer.", key=order.regenerate)
    _check_agent(answer.session, order)
    _refuse_running(answer)
    answer.parent.session = answer.session  # as it stood when it was looked at
    return answer.parent


def _session(order: MessageRequest, text: str) -> models.Session:
    if order.session:
        found = models.Session.objects.readable(order.scope).select_related("agent")
        session = found.filter(key=order.session).first() if is_uuid(order.session) else None
        if session is None:
            raise NotFoundError("There is no session “{key}”.", key=order.session)
        return session
    return create_session(agent=order.agent, scope=order.scope, text=text)


def _check_agent(session: models.Session, order: MessageRequest) -> None:
    if session.agent_id != order.agent.pk:
        raise ConflictError("The session belongs to another agent.", hint="Begin a new one.")


def _refuse_running(message: models.Message | None) -> None:
    if message and message.status == _STATUS.RUNNING and not fail_abandoned(message_id=message.pk):
        raise ConflictError(_WRITTEN, hint=_HINT)


def _lead_on(session: models.Session, answer: models.Message, order: MessageRequest) -> None:
    rows = models.Session.objects.filter(pk=session.pk)
    # Of two who ask at one moment one goes on; branches are side by side by their nature.
    rows = rows if order.parent else rows.filter(head_id=session.head_id)
    if not rows.update(head=answer, updated_at=timezone.now()):
        raise ConflictError(_WRITTEN, hint=_HINT)
    session.head = answer
