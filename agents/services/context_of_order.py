"""What an answer is given again. In: an order. Out: its context and stores, or the first one's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.core.page_context import PageContext
from agents.services.chat_order import ChatOrder
from agents.services.find_message import message_called


def context_of_order(*, order: ChatOrder) -> PageContext:
    """Return the order's own context; of an answer that is written again, what it was given then.

    Raises NotFoundError for an answer of somebody else.
    """
    if order.context or not order.regenerate:
        return order.context
    return PageContext.from_dict(_given(order).get("context") or {})


def stores_of_order(*, order: ChatOrder) -> Sequence[str]:
    """Return the names of the stores that an order asks for, or that the first answer looked into.

    Raises NotFoundError for an answer of somebody else.
    """
    if order.stores or not order.regenerate:
        return order.stores
    return list(_given(order).get("stores") or ())


def _given(order: ChatOrder) -> dict[str, Any]:
    request: dict[str, Any] = message_called(key=order.regenerate, scope=order.scope).request
    return request
