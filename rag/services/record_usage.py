"""What an answer cost, kept. In: an answer and who asked. Out: a row."""

from __future__ import annotations

from rag import models
from rag.core.access import Scope
from rag.core.file_search import GroundedAnswer

MAX_TOKENS = 2**31 - 1


def record_usage(
    *, answer: GroundedAnswer, kind: str, scope: Scope, store: models.Store | None = None
) -> None:
    """Keep the tokens of an answer; ``kind`` is one of ``UsageRecord.Kind``."""
    provider, _, model = answer.model.partition(":")
    models.UsageRecord.objects.create(
        kind=kind, provider=provider[:40], model=model[:200], user_id=scope.user_id, store=store,
        input_tokens=_known(answer.input_tokens), output_tokens=_known(answer.output_tokens),
    )  # fmt: skip


def _known(n: int | None) -> int | None:
    return None if n is None else max(0, min(n, MAX_TOKENS))
