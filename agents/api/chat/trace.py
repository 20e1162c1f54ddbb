"""Answer trace by django-ninja: the decisions that led to an answer."""

from __future__ import annotations

import uuid
from typing import Any

from ninja import Router, Schema

from agents.chat.answers.trace import answer_trace
from rag.api.http.authentication import require_caller
from rag.api.http.schemas import PROBLEMS

router = Router(tags=["agents"])


class Trace(Schema):
    """How an answer came about: its decisions in order, and its calls of models.

    `cost` is by currency; `is_cost_complete` false: some call has no known price.
    """

    message: uuid.UUID
    status: str
    outcome: str
    query: str
    model: str
    confidence: float | None
    timings_ms: dict[str, float]
    usage: dict[str, Any]
    steps: list[dict[str, Any]]
    calls: list[dict[str, Any]]
    cost: dict[str, float]
    is_cost_complete: bool


@router.get(
    "/{uuid:key}/trace", response={200: Trace, **PROBLEMS}, summary="How an answer came about"
)
def trace(request: Any, key: uuid.UUID) -> dict[str, Any]:
    """Return route, steps, tools, hits, calls of models with prompts' hashes, tokens and cost.

    Only for whose conversation it is; 404 for everybody else.
    """
    return answer_trace(key=str(key), scope=require_caller(request, "read").scope)
