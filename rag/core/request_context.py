"""Request context: who called the program, and whose usage account the work at hand runs on.

Context variables only. A request's facts are one object that is filled in while the request is
authenticated, so every copy of its context sees them; an account narrows them to one piece of work.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from rag.core.access import Scope

# What runs management commands, by the name of its file.
PROGRAMS = frozenset({"manage.py", "citable", "citable.py"})


@dataclass(slots=True)
class RequestContext:
    """What called the program: ``edge`` is api, admin, command, job or empty.

    ``who`` finds the user of a session where nobody has asked for it yet.
    """

    edge: str = ""
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    address: str = ""
    user_id: int | None = None
    key_id: int | None = None
    command: str = ""
    who: Callable[[], int | None] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class UsageAccount:
    """Who pays for a call of a model, and what it is for.

    ``run`` is the key of an answer or of a flow's run. ``is_apart`` is true where the work may
    outlive its request, whose threads it then must not use. Until ``free_until`` (seconds of
    ``time.monotonic``) the key is known to have no budget.
    """

    user_id: int | None = None
    key_id: int | None = None
    store_id: int | None = None
    agent: str = ""
    kind: str = ""
    run: str = ""
    is_apart: bool = False
    free_until: float = field(default=0.0, compare=False)

    @property
    def is_free(self) -> bool:
        """Return whether nobody needs to be asked what the next call may use."""
        return self.key_id is None or time.monotonic() < self.free_until

    def of(self, scope: Scope) -> UsageAccount:
        """Return the account with the user and the key of a scope."""
        return replace(self, user_id=scope.user_id, key_id=scope.key_id)


_REQUEST: ContextVar[RequestContext | None] = ContextVar("citable_request", default=None)
_ACCOUNT: ContextVar[UsageAccount] = ContextVar("citable_account", default=UsageAccount())  # noqa: B039


def current_request() -> RequestContext:
    """Return the facts of what called; empty ones where nobody has set any."""
    return _REQUEST.get() or RequestContext(id="")


def set_request(request: RequestContext) -> RequestContext:
    """Set the facts for the rest of this context, and return them."""
    _REQUEST.set(request)
    return request


def current_account() -> UsageAccount:
    """Return the account of the work at hand; its user and key are at least the request's."""
    account, request = _ACCOUNT.get(), _REQUEST.get()
    if request is None or account.user_id is not None or account.key_id is not None:
        return account
    return replace(account, user_id=request.user_id, key_id=request.key_id)


def set_account(scope: Scope | None = None, **changes: Any) -> UsageAccount:
    """Change the account for the rest of this context, such as a task's own, and return it."""
    account = replace(_ACCOUNT.get() if scope is None else _ACCOUNT.get().of(scope), **changes)
    _ACCOUNT.set(account)
    return account


@contextmanager
def use_account(scope: Scope | None = None, **changes: Any) -> Iterator[UsageAccount]:
    """Change the account for a while; not around the ``yield`` of a generator."""
    before = _ACCOUNT.get()
    account = replace(before if scope is None else before.of(scope), **changes)
    token = _ACCOUNT.set(account)
    try:
        yield account
    finally:
        _ACCOUNT.reset(token)
