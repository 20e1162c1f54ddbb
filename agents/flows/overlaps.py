"""Whether two conditions can hold at once. In: conditions. Out: values for which both do.

Tried on values around those that the conditions name, so what is found is real, and what is not
found may still exist.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

from agents.flows.conditions import Condition

MAX_TRIES = 3000
MAX_COMPARISONS = 24_000
_LITERAL = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|(?<![\w.])(\d+(?:\.\d+)?)")


def find_overlap(first: Condition, second: Condition) -> Mapping[str, Any] | None:
    """Return values of the variables of both for which both hold, or None."""
    names = sorted({*first.variables, *second.variables})
    literals = _LITERAL.findall(f"{first.text} {second.text}")
    texts = list(
        dict.fromkeys([double or single for double, single, number in literals if not number])
    )
    numbers = {float(number) for _, _, number in literals if number}
    around = sorted({value + step for value in numbers for step in (-0.01, 0, 0.01)})
    tried: list[Any] = [*texts, *around, True, False]
    options = [[*tried, None] for _ in names]
    n_tries = min(MAX_TRIES, MAX_COMPARISONS // (first.n_comparisons + second.n_comparisons))
    for values in itertools.islice(itertools.product(*options), n_tries):
        state = dict(zip(names, values, strict=True))
        if all(_holds(condition, state) for condition in (first, second)):
            return {name: value for name, value in state.items() if value is not None}
    return None


def _holds(condition: Condition, state: Mapping[str, Any]) -> bool:
    verdict = condition.evaluate(state)
    # A comparison of things that do not compare says nothing about real values.
    return verdict.is_true and not verdict.mistakes
