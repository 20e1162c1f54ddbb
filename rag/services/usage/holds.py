"""Holds for answers of Gemini's own search. In: who asks which model. Out: a hold, or a refusal.

It reads documents that nobody here has counted, so what is held is a guess on the high side.

An answer of Gemini's own search as it comes. In: its pieces. Out: the same; the ledger's row.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager

from asgiref.sync import sync_to_async

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.account import current_account
from rag.core.deadline import Deadline
from rag.core.errors import RAGError
from rag.core.file_search import GroundedAnswer
from rag.providers.postgres.db.connections import release_db
from rag.services.usage.budgets import admit
from rag.services.usage.ledger import give_back, record_usage

INPUT_TOKENS, OUTPUT_TOKENS = 10_000, 2_000


def hold_answer(*, scope: Scope, deadline: Deadline, model: str = "") -> models.BudgetHold | None:
    """Return what holds an answer of a model of Gemini; raise what ``admit`` raises."""
    return admit(
        account=current_account().of(scope),
        model=f"gemini:{model or conf().gemini_model}",
        input_tokens=INPUT_TOKENS,
        output_tokens=OUTPUT_TOKENS,
        timeout_s=deadline.timeout_s,
    )


@contextmanager
def held_answer(
    *, scope: Scope, deadline: Deadline, is_remote: bool, model: str = ""
) -> Iterator[models.BudgetHold | None]:
    """Hold an answer while it is made; one that fails gives it back, others are recorded with it.

    Answers of our own models hold by themselves.
    """
    hold = hold_answer(scope=scope, deadline=deadline, model=model) if is_remote else None
    try:
        yield hold
    except BaseException:
        # A stop gives back what it held, too.
        give_back(hold=hold)
        raise


OUTCOME = models.UsageRecord.Outcome


async def held_stream(
    *,
    pieces: AsyncIterator[GroundedAnswer],
    kind: str,
    scope: Scope,
    deadline: Deadline,
    store: models.Store | None = None,
    model: str = "",
) -> AsyncIterator[GroundedAnswer]:
    """Yield the pieces; what was used until they end, or somebody leaves, is kept.

    Raises what ``admit`` raises before the first is asked for; what ends without a piece has used
    nothing.
    """
    hold = await sync_to_async(hold_answer)(scope=scope, deadline=deadline, model=model)
    last: GroundedAnswer | None = None
    # Who leaves does not say so.
    outcome = OUTCOME.STOPPED

    def keep() -> None:
        if last is None:
            give_back(hold=hold)
        else:
            record_usage(
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
