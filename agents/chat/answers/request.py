"""Message request: what an agent is asked, and the rows that were created for it. Values alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agents import models
from agents.core.page_context import PageContext
from rag.core.access import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRequest:
    """What is asked: a ``message``, or an answer's key to ``regenerate``.

    ``context`` is what a page sends along; an answer that is written again has the first one's.
    ``session`` is a key, empty for a new one; ``parent`` is the key of the message to go on from,
    empty for the end of the session. ``stores`` are names.
    """

    agent: models.Agent
    scope: Scope
    message: str = ""
    session: str = ""
    parent: str = ""
    regenerate: str = ""
    stores: Sequence[str] = ()
    context: PageContext = field(default_factory=PageContext)


@dataclass(frozen=True, slots=True)
class StartedAnswer:
    """The answer's row, claimed for this process, its question, and where the agent looks.

    ``free_until`` is that of ``rag.core.request_context.UsageAccount``: the key has no budget.
    """

    order: MessageRequest
    answer: models.Message
    question: models.Message
    stores: list[Any] = field(default_factory=list)
    context: PageContext = field(default_factory=PageContext)
    free_until: float = 0.0
