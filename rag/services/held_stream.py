"""An answer of Gemini's own search as it comes. In: its pieces. Out: the same; the ledger's row."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from asgiref.sync import sync_to_async

from rag import models
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import RAGError
from rag.core.file_search import GroundedAnswer
from rag.providers.postgres.connections import release_db
from rag.services.budget_hold import hold_answer
from rag.services.record_usage import give_back, record_usage

OUTCOME = models.UsageRecord.Outcome


async def held_stream(
    *, pieces: AsyncIterator[GroundedAnswer], kind: str, scope: Scope, deadline: Deadline,
    store: models.Store | None = None, model: str = "",
) -> AsyncIterator[GroundedAnswer]:  # fmt: skip
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
