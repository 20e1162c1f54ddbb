"""A question of a program to an agent. In: tool arguments, who asks. Out: a whole cited answer."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.utils.translation import gettext_noop

from agents.services.chat import begin_chat
from agents.services.chat_order import ChatOrder
from agents.services.error_code import error_of_event
from agents.services.find_agent import find_agent
from agents.services.hear_chat import hear_chat
from agents.services.openai_answer import OpenAIAnswer
from rag.core.access import Scope
from rag.core.options import option, read_options


class Ask:
    """The tool ``ask`` as it is described; ``ask_agent`` runs it, since answers come slowly."""

    name = "ask"
    label = gettext_noop("Ask an agent")
    description = (
        "Asks an agent that searches the documents itself and answers in words, with citations "
        "that were checked. To ask on, send the session of the answer along."
    )

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """The question, and who shall answer it."""

        question: str = option(help="The question.")
        agent: str = option("rag", help="The agent's name.")
        stores: list[str] = option([], help="Where it looks; empty: wherever it may.")
        session: str = option("", help="The session of an earlier answer, to go on.")


async def ask_agent(*, arguments: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    """Return ``answer`` with footnotes, ``citations``, ``outcome``, ``confidence``, ``session``.

    Who cancels stops the answer, unless ``AGENT_FINISHES_ALONE`` is set. Raises RAGError.
    """
    started = await begin_chat(order=partial(_order, arguments, scope))
    answer = OpenAIAnswer(has_footnotes=True, holds=True)
    async with aclosing(hear_chat(message_id=started.answer.pk)) as events:
        async for event in events:
            answer.take(event)
    if answer.error is not None:
        raise error_of_event(answer.error)
    answer.finish()
    about = answer.about(())
    kept = ("outcome", "confidence", "session", "message", "sources")
    return {
        "answer": answer.shown, "citations": answer.citations,
        **{name: about[name] for name in kept},
    }  # fmt: skip


def _order(arguments: Mapping[str, Any], scope: Scope) -> ChatOrder:
    asked = read_options(Ask.Options, arguments, of=Ask.name)
    return ChatOrder(
        agent=find_agent(name=asked.agent, scope=scope), scope=scope, message=asked.question,
        session=asked.session, stores=asked.stores,
    )  # fmt: skip
