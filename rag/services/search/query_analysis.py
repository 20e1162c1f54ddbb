"""Query analysis: intent, entities with their content types, by rules or by a chat model.

The model of RAG_ANALYSIS_MODEL has the rules behind it: no search fails or waits for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.analysis import CONTENT_TYPES, QueryAnalysis
from rag.core.deadline import Deadline
from rag.core.errors import ProviderTimeoutError
from rag.core.ports import ChatRequest
from rag.core.request_context import use_account
from rag.core.types import Message
from rag.services.threads import release_db, start_detached
from rag.services.usage import flush_usage
from rag.services.wiring import registry as wiring
from rag.stages.query.analysis_prompt import SCHEMA, analysis_prompt, read_analysis
from rag.stages.query.analyze import analyze_query

DEADLINE_S = 2.0
# A model that failed is left alone for so long, or every search would wait for it.
PAUSE_S = 30.0

log = logging.getLogger(__name__)
_paused_until: dict[str, float] = {}


class QueryAnalyzer:
    """Tells intent, complexity, entities and keywords; ``model`` None takes the configured one.

    An empty ``model`` means rules. A model has ``deadline_s`` seconds; one that fails, is late or
    answers with something else is replaced by the rules, and ``analyzer`` says so.
    """

    def __init__(self, model: str | None = None, *, deadline_s: float = DEADLINE_S) -> None:
        self._model = conf().analysis_model if model is None else model
        self._deadline_s = deadline_s

    def analyze(self, query: str, *, vocabulary: Mapping[str, Any] | None = None) -> QueryAnalysis:
        """Return the analysis of any text; ``vocabulary`` maps entity types to names."""
        vocabulary = vocabulary or {}
        rules = analyze_query(query, vocabulary)
        is_paused = time.monotonic() < _paused_until.get(self._model, 0.0)
        if not self._model or is_paused or not query.strip():
            return rules
        release_db()
        with use_account(kind="analysis"), flush_usage():
            # A call that is late cannot be stopped; it ends by itself on its thread.
            deadline = Deadline(self._deadline_s)
            ask = partial(self._ask, query, list(vocabulary))
            call = start_detached(ask, deadline=deadline)
            try:
                error = call.exception(deadline.remaining_s)
            except TimeoutError:
                call.cancel()
                error = ProviderTimeoutError(
                    "There was no answer within {timeout_s} s.", timeout_s=f"{self._deadline_s:g}"
                )
        if error is not None:
            _paused_until[self._model] = time.monotonic() + PAUSE_S
            log.warning("Queries are analyzed by rules, %s failed: %s", self._model, error)
            return rules
        return read_analysis(call.result(), query, rules, analyzer=self._model) or rules

    def _ask(self, query: str, types: list[str]) -> str:
        started = time.monotonic()
        chat = wiring.chat_model(self._model)
        messages = [Message(role, text) for role, text in analysis_prompt(query, types)]

        request = ChatRequest(
            messages,
            question=query,
            temperature=0.0,
            max_tokens=512,
            timeout_s=max(0.01, self._deadline_s - (time.monotonic() - started)),
            schema=SCHEMA,
        )
        return chat.generate(request).text


def merged_vocabulary(*, stores: Sequence[models.Store]) -> dict[str, Any]:
    """Return the names of all stores by type; what is no list of names is left out."""
    merged: dict[str, list[str]] = {}
    for store in stores:
        found = store.vocabulary if isinstance(store.vocabulary, dict) else {}
        for kind, names in found.items():
            if isinstance(names, list) and not kind.startswith(CONTENT_TYPES):
                merged.setdefault(kind, []).extend(n for n in names if isinstance(n, str))
    return {kind: list(dict.fromkeys(names)) for kind, names in merged.items()}


DEFAULT_CONTENT_TYPES = {
    "character": ("character", "character_relation"),
    "outline": ("outline",),
    "chapter": ("outline",),
}


def content_types_for_entities(
    *, analysis: QueryAnalysis, stores: Sequence[models.Store], scope: Scope
) -> tuple[str, ...]:
    """Return the content types that the query's entities stand for, as far as files have them.

    For each entity type: what a store's vocabulary names under “content_types:<type>”, else the
    usual mapping (character, outline, chapter), else a content type of the same name. Only files
    that ``scope`` may read count.
    """
    wanted: dict[str, None] = {}
    for kind in dict.fromkeys(entity.type for entity in analysis.entities):
        own = [name for store in stores for name in _mapped(store, kind)]
        wanted |= dict.fromkeys(own or DEFAULT_CONTENT_TYPES.get(kind, (kind,)))
    if not wanted or not stores:
        return ()
    files = models.File.objects.readable(scope).filter(
        store_id__in=[store.pk for store in stores], content_type__in=list(wanted)
    )
    there = set(files.order_by().values_list("content_type", flat=True).distinct())
    return tuple(name for name in wanted if name in there)


def _mapped(store: models.Store, kind: str) -> list[str]:
    vocabulary = store.vocabulary if isinstance(store.vocabulary, dict) else {}
    names = vocabulary.get(f"{CONTENT_TYPES}{kind}")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
