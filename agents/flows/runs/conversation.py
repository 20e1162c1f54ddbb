"""Conversation of a run: the earlier runs with its ``session_id``, and what is remembered.

Both are shown to models. They are told as their reader may see them today, and what they rest on
is noted with the run, so that a deletion finds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents import models
from agents.core.state import Turn
from agents.flows.definition.definition import FlowDefinition
from agents.flows.runs.redact import redactors_of
from agents.runtime.memories import recall_memory
from agents.runtime.scopes import is_uuid
from rag.core.access import Scope
from rag.core.hits import hit_chunk_ids

# So many questions with their answers, the newest, and no more characters.
MAX_EXCHANGES, MAX_CHARACTERS = 20, 40_000


@dataclass(frozen=True, slots=True)
class RunConversation:
    """Fields of a run's first state, and the chunks that their words rest on."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    chunk_ids: frozenset[int] = frozenset()


def run_conversation(
    *, flow: models.Flow, definition: FlowDefinition, scope: Scope, state: Mapping[str, Any]
) -> RunConversation:
    """Return the history of the state's ``session_id``, where none was given, and memories.

    Only runs of the same flow count that were begun by the same person for the same one. Whoever
    is not known must use a UUID, which nobody guesses.
    """
    fields: dict[str, Any] = {}
    chunk_ids: set[int] = set()
    session_id = state.get("session_id") or ""
    is_known = scope.user_id is not None or is_uuid(session_id)
    if session_id and is_known and not state.get("history_messages"):
        fields["history_messages"], chunk_ids = _history(flow, scope, state)
    if definition.memory and scope.user_id is not None:
        said = (state.get("current_message") or {}).get("content") or ""
        text, ids = recall_memory(query=said, scope=scope, project=definition.memory)
        fields["recalled_memories"] = text
        chunk_ids |= ids
    return RunConversation(fields, frozenset(chunk_ids))


def _history(
    flow: models.Flow, scope: Scope, state: Mapping[str, Any]
) -> tuple[list[Turn], set[int]]:
    same = {"session_id": state["session_id"], "token_id": state.get("token_id")}
    rows = models.FlowRun.objects.filter(
        version__flow=flow,
        status=models.FlowRun.Status.DONE,
        user=scope.user_id,
        is_by_operator=scope.is_operator,
        replay_of=None,
        **{f"start__{name}": one for name, one in same.items() if one is not None},
    )
    runs = list(rows.exclude(answer="").order_by("-pk")[:MAX_EXCHANGES])
    gone = redactors_of(runs=runs)
    turns: list[Turn] = []
    chunk_ids: set[int] = set()
    left = MAX_CHARACTERS
    for run in runs:
        told = gone[run.pk].answer({"answer": run.answer, "citations": run.citations})
        said = str((run.start.get("current_message") or {}).get("content") or "")
        left -= len(said) + len(told["answer"])
        if left < 0:
            break
        turns[:0] = [
            Turn(role="user", content=said),
            Turn(role="assistant", content=told["answer"]),
        ]
        found = {pk for one in run.passages for pk in hit_chunk_ids(one)}
        chunk_ids |= gone[run.pk].without_gone({*run.chunk_ids, *found})
    return turns, chunk_ids
