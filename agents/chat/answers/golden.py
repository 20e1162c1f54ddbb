"""Golden questions made of answers: the question, and what a good answer quoted."""

from __future__ import annotations

from typing import Any

from agents import models
from agents.chat.history.evidence import cited_hit
from rag.core.access import Scope
from rag.core.errors import InvalidInputError
from rag.services.evaluation import TargetSpec, save_question
from rag.services.stores import readable_stores

_HOLDING = frozenset({"verified", "abridged"})


def keep_as_golden(*, message: models.Message, scope: Scope, user: Any) -> list[Any]:
    """Return the golden questions made of an answer, one in each store that it quotes.

    What was quoted and holds must be found; of an answer that was called bad nothing, in the store
    of its best source: a person says what. Its comment is the note. Raises InvalidInputError where
    there is no store to ask, and what ``save_question`` raises.
    """
    if message.role != models.Message.Role.ASSISTANT or message.parent is None:
        raise InvalidInputError("The message “{key}” is no answer.", key=message.key)
    is_bad = message.feedback == -1
    wanted = {} if is_bad else _quoted(message)
    if not wanted:
        found = (one["store_id"] for one in message.sources if one.get("store_id"))
        wanted = {store_id: [] for store_id in list(found)[:1]}
    stores = readable_stores(scope=scope, ids=wanted)
    if not stores:
        raise InvalidInputError(
            "The answer rests on no store that you may read.",
            hint="Add the question by hand, under golden questions.",
        )
    facts = {
        "origin": "disliked" if is_bad else "corrected",
        "note": message.feedback_comment,
        "created_by": user,
    }
    query = message.query or message.parent.content
    return [
        save_question(scope=scope, store=store, query=query, wanted=wanted[store.pk], facts=facts)[
            0
        ]
        for store in stores
    ]


def _quoted(message: models.Message) -> dict[int, list[TargetSpec]]:
    store_of = {one.get("doc_id"): one.get("store_id") for one in message.sources}
    wanted: dict[int, list[TargetSpec]] = {}
    for cited in message.citations:
        store_id = store_of.get(cited.get("doc_id"))
        if store_id and cited.get("chunk_id") and cited.get("verdict") in _HOLDING:
            chunk_id = cited_hit(message=message, cited=cited).chunk_id
            wanted.setdefault(store_id, []).append(TargetSpec(chunk_id=chunk_id))
    return wanted
