"""A call of a service that makes vectors or ranks. In: its texts. Out: a row of the ledger."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rag import models
from rag.core import watch
from rag.core.account import Account, current_account
from rag.core.tally import tallied
from rag.providers.postgres.connections import release_db
from rag.services.budget import admit
from rag.services.count_tokens import count_tokens
from rag.services.record_usage import Call, give_back, record_call

TIMEOUT_S = 120.0


@contextmanager
def metered_service(
    *, model: str, kind: str, texts: Sequence[str], account: Account | None = None
) -> Iterator[None]:
    """Ask the key's budget, let the call be made inside, and keep the tokens that it took.

    They are what the service tells, else our own count. Raises LimitError and ForbiddenError
    before the call. A call that fails takes nothing.
    """
    account, started = account or current_account(), time.perf_counter()
    provider, _, name = model.partition(":")
    labels = {"provider": provider, "model": name, "kind": kind}
    hold: models.BudgetHold | None = None
    if account.key_id is not None:
        hold = admit(
            account=account, model=model, input_tokens=_count(texts), output_tokens=0,
            timeout_s=TIMEOUT_S,
        )  # fmt: skip
    with watch.span("model", model=model, kind=kind, n_texts=len(texts)), tallied() as tally:
        try:
            yield
        except BaseException:
            # A stop gives back what it held, too.
            watch.took("model_call", time.perf_counter() - started, outcome="failed", **labels)
            give_back(hold=hold)
            release_db()
            raise
    seconds = time.perf_counter() - started
    watch.took("model_call", seconds, outcome="ok", **labels)
    tokens = tally.tokens
    call = Call(
        model, account, _count(texts) if tokens is None else tokens, 0, tokens is None,
        duration_ms=round(seconds * 1e3, 1), hold=hold,
    )  # fmt: skip
    record_call(call=call, kind=kind)
    # The thread may be one that ends now, or go on to wait for another service.
    release_db()


def _count(texts: Sequence[str]) -> int:
    return sum(count_tokens(text) for text in texts)
