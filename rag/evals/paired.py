"""Paired significance test of two systems on the same questions: difference, interval, p-value.

Randomisation test of paired differences (Smucker, Allan, Carterette, CIKM 2007) and percentile
bootstrap of their mean; the same figures always give the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

N_DRAWS = 10_000
EXACT_UP_TO = 13
SEED = 20_261_128
BATCH = 500


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Means before and after, the mean difference with its 95 % interval, and a two-sided p.

    ``p_value`` is how often a difference so large comes about when before and after are the same.
    """

    before: float
    after: float
    difference: float
    low: float
    high: float
    p_value: float
    n_better: int
    n_worse: int
    n_same: int

    @property
    def is_significant(self) -> bool:
        """Return whether chance is an unlikely reason, at 5 %."""
        return self.p_value < 0.05


def compare_paired(before: Sequence[float], after: Sequence[float]) -> PairedComparison:
    """Return the comparison of figures of the same questions, in the same order.

    No question at all: no difference, p is 1. Raises ValueError for lists of unequal length.
    """
    first, second = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    if first.shape != second.shape:
        raise ValueError("before and after have different lengths")
    if not first.size:
        return PairedComparison(0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0, 0, 0)
    changes = second - first
    changes[np.abs(changes) < 1e-9] = 0.0
    random = np.random.default_rng(SEED)
    low, high = _interval(changes, random)
    return PairedComparison(
        before=round(float(first.mean()), 6),
        after=round(float(second.mean()), 6),
        difference=round(float(changes.mean()), 6),
        low=low,
        high=high,
        p_value=_p_value(changes, random),
        n_better=int((changes > 0).sum()),
        n_worse=int((changes < 0).sum()),
        n_same=int((changes == 0).sum()),
    )


def _p_value(changes: NDArray[np.float64], random: np.random.Generator) -> float:
    """Return how many of the sign flips have a mean as far from 0; all of them when there are few.

    Of drawn ones the observed one counts too, so that p is never 0.
    """
    moved = changes[changes != 0]
    if not moved.size:
        return 1.0
    seen = abs(moved.sum()) - 1e-9
    if moved.size <= EXACT_UP_TO:
        numbers = np.arange(2**moved.size)[:, None]
        signs = 1 - 2 * ((numbers >> np.arange(moved.size)) & 1)
        return round(float((np.abs(signs @ moved) >= seen).mean()), 6)
    n_far = 0
    for _ in range(N_DRAWS // BATCH):
        signs = random.integers(0, 2, size=(BATCH, moved.size), dtype=np.int8) * 2 - 1
        n_far += int((np.abs(signs @ moved) >= seen).sum())
    return round((n_far + 1) / (N_DRAWS + 1), 6)


def _interval(changes: NDArray[np.float64], random: np.random.Generator) -> tuple[float, float]:
    means = np.concatenate(
        [
            changes[random.integers(0, changes.size, size=(BATCH, changes.size))].mean(axis=1)
            for _ in range(N_DRAWS // BATCH)
        ]
    )
    low, high = np.percentile(means, [2.5, 97.5])
    return round(float(low), 6), round(float(high), 6)
