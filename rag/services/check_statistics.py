"""Statistics of stores that lag behind their chunks. Out: findings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from rag.providers.postgres import stats, weights
from rag.services.doctor_finding import Finding
from rag.services.weights import settle_store


def deltas() -> Iterator[Finding]:
    """Tell stores whose last changes are not in their statistics yet."""
    stores = stats.stores_with_deltas()
    if stores:
        yield Finding(
            "deltas",
            "note",
            f"changes of {len(stores)} stores are not rolled up yet",
            "The worker does it within seconds.",
            facts={"stores": stores[:20]},
            fix=partial(_roll_up, stores),
        )


def weights_off() -> Iterator[Finding]:
    """Tell stores whose chunks have become longer or shorter than their weights were made for."""
    for store_id in weights.drifted_stores():
        yield Finding(
            "weights",
            "warning",
            f"store {store_id}: the mean length has left its band",
            "Weigh its chunks anew.",
            facts={"store": store_id},
            fix=partial(_settle, store_id),
        )


def _roll_up(stores: list[int]) -> str:
    stats.roll_up(stores)
    return f"rolled up {len(stores)} stores"


def _settle(store_id: int) -> str:
    settle_store(store_id=store_id)
    return f"store {store_id} is weighed anew"
