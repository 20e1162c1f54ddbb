"""Holds for answers of Gemini's own search. In: who asks which model. Out: a hold, or a refusal.

It reads documents that nobody here has counted, so what is held is a guess on the high side.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.account import current_account
from rag.core.deadline import Deadline
from rag.services.budget import admit
from rag.services.record_usage import give_back

INPUT_TOKENS, OUTPUT_TOKENS = 10_000, 2_000


def hold_answer(*, scope: Scope, deadline: Deadline, model: str = "") -> models.BudgetHold | None:
    """Return what holds an answer of a model of Gemini; raise what ``admit`` raises."""
    return admit(
        account=current_account().of(scope), model=f"gemini:{model or conf().gemini_model}",
        input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS, timeout_s=deadline.timeout_s,
    )  # fmt: skip


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
