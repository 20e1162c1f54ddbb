"""Whether Milvus, where it is asked, follows Postgres. Out: findings."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import connection

from rag.core.errors import NotFoundError
from rag.models.outbox import WORDS
from rag.providers.milvus.collections import count_chunks
from rag.providers.postgres.connections import release_db
from rag.providers.postgres.feed_rows import feedable_spaces
from rag.providers.postgres.outbox_switch import outbox_state
from rag.services.doctor_finding import Finding
from rag.services.feed import start_feeding, stop_feeding
from rag.services.search_providers import is_milvus, milvus_server

# A search looks at what waits, so a lag costs time before it costs hits.
MAX_LAG_S = 300.0
_WORDS = "SELECT count(*) FROM rag_chunk_lex WHERE enabled AND len > 0"
_VECTORS = "SELECT count(*) FROM rag_chunk_vec_s{space} WHERE enabled"


def outbox() -> Iterator[Finding]:
    """Tell changes that nobody notes, that nobody asked for, or that wait for too long."""
    state = outbox_state()
    if state.is_on and not is_milvus():
        yield Finding(
            "outbox", "warning", "changes are noted for Milvus, which nobody asks",
            "Stop it: rag_feed --stop, or set RAG_SEARCH_PROVIDER=milvus.", fix=_stop,
        )  # fmt: skip
    if not is_milvus():
        return
    if not state.is_on:
        yield Finding(
            "outbox", "error", "searches ask Milvus, and no changes are noted for it",
            "Feed it: rag_feed.", fix=_start,
        )  # fmt: skip
    elif state.lag_s > MAX_LAG_S:
        yield Finding(
            "outbox", "warning",
            f"{state.n_waiting} changes wait for Milvus, the oldest for {state.lag_s:.0f} s",
            "Start a worker: manage.py procrastinate worker; its log says what fails.",
            facts={"waiting": state.n_waiting, "lag_s": round(state.lag_s)},
        )  # fmt: skip


def milvus_chunks() -> Iterator[Finding]:
    """Tell collections of Milvus that hold more or fewer chunks than Postgres, nothing waiting."""
    if not is_milvus() or not outbox_state().is_on:
        return
    for space_id in (WORDS, *feedable_spaces()):
        there, here = _n_there(space_id), _n_here(space_id)
        if there != here and not outbox_state().n_waiting:
            whose = f"space {space_id}" if space_id else "the words"
            yield Finding(
                "milvus", "warning", f"Milvus holds {there} chunks of {whose}, Postgres {here}",
                "Feed it anew: rag_feed --all.", facts={"space": space_id, "there": there,
                "here": here}, fix=_start_anew,
            )  # fmt: skip


def _n_there(space_id: int) -> int:
    release_db()
    try:
        return count_chunks(milvus_server(), space_id)
    except NotFoundError:
        return 0


def _n_here(space_id: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_VECTORS.format(space=int(space_id)) if space_id else _WORDS)
        return int(cursor.fetchone()[0])


def _stop() -> str:
    return f"stopped; {stop_feeding()} changes were not fed"


def _start() -> str:
    return f"noted {start_feeding()} changes; workers feed them"


def _start_anew() -> str:
    return f"noted {start_feeding(everything=True)} changes; workers feed them"
