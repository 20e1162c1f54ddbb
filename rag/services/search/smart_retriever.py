"""SmartRetriever: retrieval for agents, with plain dicts for their state in and out."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError, UnknownNameError
from rag.core.types import MODES, RetrievalSettings
from rag.providers.postgres.db.connections import release_db
from rag.services.access import scope_of
from rag.services.search.engine import run_search
from rag.services.search.retrieval import RetrievalRequest, SearchEngine, run_retrieval
from rag.services.stores import find_stores

log = logging.getLogger(__name__)
NO_STORE = "No store was named, so nothing was searched."


class SmartRetriever:
    """Decides how to search for an agent; ``stores`` are names, slugs or rows, used by default.

    ``search_engine`` is called like ``rag.services.search.engine.run_search``, and never cached; it
    may stand in the first place.
    """

    def __init__(
        self,
        stores: Sequence[str | models.Store] | str | SearchEngine = (),
        *,
        search_engine: SearchEngine | None = None,
    ) -> None:
        is_engine = callable(stores)
        self._stores = [] if is_engine else _names(stores)
        self._engine: SearchEngine = search_engine or (
            cast(SearchEngine, stores) if is_engine else run_search
        )

    async def retrieve_for_agent(
        self, query: str, context: Mapping[str, Any], retrieval_mode: str = "auto"
    ) -> dict[str, Any]:
        """Return what ``retrieve_for_agent_sync`` returns, from any event loop."""

        def run() -> dict[str, Any]:
            try:
                return self.retrieve_for_agent_sync(query, context, retrieval_mode)
            finally:
                # No request ends here that would give the thread's connection back.
                release_db()

        return await sync_to_async(run)()

    def retrieve_for_agent_sync(
        self, query: str, context: Mapping[str, Any], retrieval_mode: str = "auto"
    ) -> dict[str, Any]:
        """Return {"results": dicts of ``Hit.as_dict``, "retrieval_metadata": every decision}.

        ``context`` may hold ``stores`` (names), else ``project_id`` (a store's slug or name), else
        the retriever's own stores are searched; ``scope`` (a Scope), else ``user_id``, else the
        caller is anonymous; ``settings``, a dict that replaces what it names of the first store's
        own. No store at all gives no results and a ``notice``. Raises UnknownNameError for an
        unknown mode, NotFoundError for a store that does not exist or may not be read, which
        nobody can tell apart.
        """
        if retrieval_mode not in MODES:
            raise UnknownNameError("retrieval mode", retrieval_mode, MODES)
        names = self._wanted(context)
        if not names:
            metadata = {"mode": retrieval_mode, "total_found": 0, "stores": [], "notice": NO_STORE}
            return {"results": [], "retrieval_metadata": metadata}
        scope = _scope(context)
        stores = find_stores(names=names, scope=scope)
        started = time.perf_counter()
        found = run_retrieval(
            RetrievalRequest(
                query=query,
                scope=scope,
                stores=stores,
                settings=_settings(context, stores[0]).in_mode(retrieval_mode),
                engine=self._engine,
            )
        )
        results = [hit.as_dict() for hit in found.hits]
        spent_ms = round((time.perf_counter() - started) * 1e3, 1)
        log.info("retrieved %s hits for an agent in %s ms", len(results), spent_ms)
        return {"results": results, "retrieval_metadata": found.metadata}

    def _wanted(self, context: Mapping[str, Any]) -> list[str]:
        for key in ("stores", "project_id"):
            if context.get(key) not in (None, "", [], ()):
                return _names(context[key])
        return self._stores


def _names(stores: Any) -> list[str]:
    """Return the names of one store or of several, given by name, number or row."""
    listed = [stores] if isinstance(stores, (str, int, models.Store)) else list(stores)
    return [store.slug if isinstance(store, models.Store) else str(store) for store in listed]


def _scope(context: Mapping[str, Any]) -> Scope:
    scope, user_id = context.get("scope"), context.get("user_id")
    if isinstance(scope, Scope):
        return scope
    if scope is not None:
        raise InvalidInputError("“scope” is no Scope.", hint="Give user_id instead.")
    if user_id is None:
        return Scope.anonymous()
    if isinstance(user_id, bool) or not str(user_id).isdecimal() or len(str(user_id)) > 18:
        raise InvalidInputError("“{user_id}” is no user's id.", user_id=user_id)
    return scope_of(get_user_model().objects.filter(pk=int(user_id)).first())


def _settings(context: Mapping[str, Any], store: models.Store) -> RetrievalSettings:
    settings = context.get("settings") or {}
    if isinstance(settings, RetrievalSettings):
        return settings
    if not isinstance(settings, Mapping):
        raise InvalidInputError("“settings” is no mapping of retrieval settings.")
    return RetrievalSettings.from_dict({**store.retrieval, **settings})
