"""All that a search's result depends on. In: a question and the states of its stores. Out: bytes.

Two searches have one key only if they must find the same: the same words, settings, rights, code
and models, and stores in the same state.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rag import models
from rag.conf import conf
from rag.core.access import Scope
from rag.core.types import RetrievalSettings
from rag.providers.postgres.generations import StoreState
from rag.services.query_analyzer import vocabulary_of
from rag.stages.analyze import analyze_query
from rag.stages.terms import VERSION, is_han, short_phrase

_PACKAGE = Path(__file__).resolve().parents[1]
_PARTS = ("core", "models", "providers", "services", "stages")


@dataclass(frozen=True, slots=True)
class SearchKey:
    """``asked`` differs wherever results may; ``ttl_s`` is how long they may be kept."""

    asked: bytes
    ttl_s: int


def search_key(
    *, query: str, scope: Scope, settings: RetrievalSettings, states: Sequence[StoreState],
    also: Any = "",
) -> SearchKey | None:  # fmt: skip
    """Return the key, or None where nothing may be kept.

    ``also`` is what else the result depends on, JSON-safe. Nothing may be kept where a store
    keeps none, and inside a transaction that has changed a store itself: nobody else sees that
    state, and it may never come to be.
    """
    ttl_s = min((state.ttl_s for state in states), default=0)
    if ttl_s < 1 or any(state.is_ours for state in states):
        return None
    parts = [
        also, normal_query(query), is_han(query), short_phrase(query), scope.fingerprint,
        settings.hash, [[*asdict(state).values()] for state in states], VERSION, _code(),
        _models(settings),
    ]  # fmt: skip
    return SearchKey(json.dumps(parts, ensure_ascii=False).encode("utf-8", "surrogatepass"), ttl_s)


def seen_in_query(asked: str, stores: Sequence[models.Store]) -> Any:
    """Return what decides on the number of hits: spellings may share it, or a model reads them."""
    vocabulary, model = vocabulary_of(stores=stores), conf().analysis_model
    seen = [model, asked] if model else analyze_query(asked, vocabulary).as_dict()
    return [vocabulary, seen]


def normal_query(query: str) -> str:
    """Return one form for spellings that search for the same terms: NFKC, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", query).split())


def _models(settings: RetrievalSettings) -> list[str]:
    values = conf()
    # Endpoint and form of the models that turn a question into a vector, or sort what was found.
    return [
        values.e5_precision, str(values.embedding_dim), values.query_prefix,
        values.openai_base_url, values.gemini_base_url,
        *([] if settings.rerank == "none" else
          [values.chat_model, values.rerank_url, values.rerank_model]),
    ]  # fmt: skip


@lru_cache(maxsize=1)
def _code() -> str:
    """Return what differs between releases that may rank differently; nobody must remember to."""
    digest = hashlib.sha256()
    for part in _PARTS:
        for path in sorted((_PACKAGE / part).rglob("*")):
            if path.suffix in (".py", ".sql"):
                digest.update(path.relative_to(_PACKAGE).as_posix().encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
