"""Usage ledger: the one writer of a row for each model call, at once or deferred, and its payer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from django.contrib.auth import get_user_model
from django.db import DatabaseError, IntegrityError, connection, transaction

from rag import models
from rag.core import metrics
from rag.core.access import Scope
from rag.core.file_search import GroundedAnswer
from rag.core.request_context import UsageAccount, current_account, current_request, use_account
from rag.services.usage.budgets import commit, price_of

MAX_TOKENS = 2**31 - 1
log = logging.getLogger(__name__)


@dataclass(slots=True)
class ModelCall:
    """A call that has ended, or was left; ``model`` is ``provider:model``."""

    model: str
    account: UsageAccount
    input_tokens: int | None = None
    output_tokens: int | None = None
    is_estimated: bool = False
    outcome: str = models.UsageRecord.Outcome.OK
    duration_ms: float | None = None
    prompt_sha256: str = ""
    hold: models.BudgetHold | None = field(default=None)


def record_answer(
    *,
    answer: GroundedAnswer,
    kind: str,
    scope: Scope,
    store: models.Store | None = None,
    hold: models.BudgetHold | None = None,
    outcome: str = models.UsageRecord.Outcome.OK,
) -> None:
    """Keep the tokens of an answer of Gemini's own search; ``kind`` is of ``UsageRecord.Kind``."""
    call = ModelCall(
        answer.model,
        current_account().of(scope),
        answer.input_tokens,
        answer.output_tokens,
        outcome=outcome,
        hold=hold,
    )
    record_call(call=call, kind=kind, store_id=store.pk if store else None)


def record_call(*, call: ModelCall, kind: str = "", store_id: int | None = None) -> None:
    """Write a row, with its cost by the prices of now, and count it on the key's budgets.

    A database that fails loses the row, which the log says, and not the answer that was paid for.
    """
    account = call.account
    provider, _, model = call.model.partition(":")
    tokens = _known(call.input_tokens), _known(call.output_tokens)
    price = price_of(model=call.model)
    kind = kind or account.kind or models.UsageRecord.Kind.OTHER
    record = models.UsageRecord(
        kind=kind,
        provider=provider[:40],
        model=model[:200],
        input_tokens=tokens[0],
        output_tokens=tokens[1],
        is_estimated=call.is_estimated,
        outcome=call.outcome,
        cost=price.cost(*tokens) if price else None,
        currency=price.currency if price else "",
        duration_ms=call.duration_ms,
        prompt_sha256=call.prompt_sha256,
        user_id=account.user_id,
        key_id=account.key_id,
        store_id=store_id or account.store_id,
        agent=account.agent[:100],
        run=account.run[:40],
    )
    try:
        try:
            _write(record, call.hold)
        except IntegrityError:
            # Whose it was, or where, was deleted while the model answered.
            _leave_gone(record)
            _write(record, call.hold)
    except DatabaseError:
        log.exception("the use of %s is not in the ledger", call.model)
    for direction, n in zip(("input", "output"), tokens, strict=True):
        metrics.count("model_tokens", n or 0, provider=provider, model=model, direction=direction)


def _write(record: models.UsageRecord, hold: models.BudgetHold | None) -> None:
    with transaction.atomic():
        record.save(force_insert=True)
        if record.key_id is not None:
            commit(record=record, hold=hold)
        # Now, not with the commit: that would take the answer along, which is written with it.
        connection.check_constraints()


def _leave_gone(record: models.UsageRecord) -> None:
    record.pk = None
    for name, rows in (
        ("user", get_user_model()._default_manager),
        ("key", models.ApiKey.objects),
        ("store", models.Store.objects),
    ):
        if not rows.filter(pk=getattr(record, f"{name}_id")).exists():
            setattr(record, f"{name}_id", None)


def release_hold(*, hold: models.BudgetHold | None) -> None:
    """End what a call held that failed before anything was answered."""
    if hold is None:
        return
    try:
        hold.delete()
    except DatabaseError:
        log.exception("a hold on a budget stays until it expires")


def _known(n: int | None) -> int | None:
    return None if n is None else max(0, min(n, MAX_TOKENS))


class DeferredUsage:
    """Calls that wait to be written; after ``close`` none waits any more."""

    def __init__(self) -> None:
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._calls: list[ModelCall] | None = []

    @property
    def is_waiting(self) -> bool:
        """Return whether a call waits."""
        return bool(self._calls)

    @property
    def is_open(self) -> bool:
        """Return whether calls wait here."""
        return self._calls is not None

    def add(self, call: ModelCall) -> None:
        """Keep a call, or write it at once when nobody waits."""
        with self._lock:
            if self._calls is not None:
                self._calls.append(call)
                return
        record_call(call=call)

    def take(self, *, is_last: bool = False) -> list[ModelCall]:
        """Return the calls that wait; whoever takes them writes them, or adds them again.

        After ``is_last`` none waits any more.
        """
        with self._lock:
            calls = self._calls or []
            self._calls = None if is_last or self._calls is None else []
        return calls

    @contextmanager
    def writing(self) -> Iterator[list[ModelCall]]:
        """Yield the calls that wait, to be written in one transaction; after an error they wait on.

        ``write`` waits for it: a budget that is asked in between would count their holds still.
        """
        with self._writing:
            calls = self.take()
            try:
                yield calls
            except BaseException:
                for call in calls:
                    self.add(call)
                raise

    def write(self) -> None:
        """Write all that wait."""
        with self._writing:
            for call in self.take():
                record_call(call=call)

    def close(self) -> None:
        """Write all that wait; later ones are written at once."""
        for call in self.take(is_last=True):
            record_call(call=call)


_LATER: ContextVar[DeferredUsage | None] = ContextVar("citable_later", default=None)


def record_or_defer(call: ModelCall) -> None:
    """Write a call's row now, or leave it to whoever waits for the work at hand."""
    later = _LATER.get()
    if later is None:
        record_call(call=call)
    else:
        later.add(call)


def defer_to(later: DeferredUsage) -> None:
    """Leave the calls of the rest of this context, such as a task's own, to whoever takes them."""
    _LATER.set(later)


def deferred_usage() -> DeferredUsage | None:
    """Return where the calls of this context wait; None where each is written at once."""
    later = _LATER.get()
    return later if later is not None and later.is_open else None


@contextmanager
def flush_usage() -> Iterator[None]:
    """Write what threads with a copy of this context have called, at the end, on this thread."""
    later = DeferredUsage()
    token = _LATER.set(later)
    try:
        yield
    finally:
        _LATER.reset(token)
        later.close()


def current_payer() -> dict[str, int]:
    """Return the arguments that tell a job of whoever queues it; none where nobody asks."""
    account, who = current_account(), current_request().who
    user_id = who() if account.user_id is None and who is not None else account.user_id
    found = {"user_id": user_id, "key_id": account.key_id}
    return {name: pk for name, pk in found.items() if pk is not None}


@contextmanager
def charged_to(*, user_id: int | None = None, key_id: int | None = None) -> Iterator[None]:
    """Put what is done inside on the account of a user and a key, as far as they still exist."""
    user = get_user_model().objects.filter(pk=user_id or 0).values_list("pk", flat=True).first()
    key = models.ApiKey.objects.filter(pk=key_id or 0).values_list("pk", flat=True).first()
    with use_account(user_id=user, key_id=key):
        yield
