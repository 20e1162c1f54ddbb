"""Metering of Gemini's file search: reserves a budget for an answer and records its tokens.

It reads documents that nobody here has counted, so the reservation is a guess on the high side.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager

from asgiref.sync import sync_to_async

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import RAGError
from rag.core.file_search import GroundedAnswer
from rag.core.request_context import current_account
from rag.providers.postgres.db.connections import release_db
from rag.services.usage.budgets import reserve
from rag.services.usage.ledger import record_answer, release_hold

INPUT_TOKENS, OUTPUT_TOKENS = 10_000, 2_000


def reserve_answer(
    *, scope: Scope, deadline: Deadline, model: str = ""
) -> models.BudgetHold | None:
    """Return what holds an answer of a model of Gemini; raise what ``reserve`` raises."""
    return reserve(
        account=current_account().of(scope),
        model=f"gemini:{model or conf().gemini_model}",
        input_tokens=INPUT_TOKENS,
        output_tokens=OUTPUT_TOKENS,
        timeout_s=deadline.timeout_s,
    )


@contextmanager
def reserved_answer(
    *, scope: Scope, deadline: Deadline, model: str = ""
) -> Iterator[models.BudgetHold | None]:
    """Reserve an answer while it is made; one that fails gives back what was reserved."""
    hold = reserve_answer(scope=scope, deadline=deadline, model=model)
    try:
        yield hold
    except BaseException:
        # A stop gives back what it held, too.
        release_hold(hold=hold)
        raise


OUTCOME = models.UsageRecord.Outcome


async def metered_stream(
    *,
    pieces: AsyncIterator[GroundedAnswer],
    kind: str,
    scope: Scope,
    deadline: Deadline,
    store: models.Store | None = None,
    model: str = "",
) -> AsyncGenerator[GroundedAnswer, None]:
    """Yield the pieces; what was used until they end, or somebody leaves, is kept.

    Raises what ``reserve`` raises before the first is asked for; what ends without a piece has used
    nothing.
    """
    hold = await sync_to_async(reserve_answer)(scope=scope, deadline=deadline, model=model)
    last: GroundedAnswer | None = None
    # Who leaves does not say so.
    outcome = OUTCOME.STOPPED

    def keep() -> None:
        if last is None:
            release_hold(hold=hold)
        else:
            record_answer(
                answer=last, kind=kind, scope=scope, store=store, hold=hold, outcome=outcome
            )
        release_db()

    try:
        async with aclosing(pieces):  # type: ignore[type-var]
            async for piece in pieces:
                last = piece
                yield piece
        outcome = OUTCOME.OK
    except RAGError:
        outcome = OUTCOME.FAILED
        raise
    finally:
        await sync_to_async(keep)()
