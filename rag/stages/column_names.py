"""Names for the columns of a row. In: what the database calls them. Out: names, each once."""

from __future__ import annotations

from collections.abc import Sequence


def column_names(names: Sequence[str]) -> list[str]:
    """Return the names in their order; a repeated one gets a number, so that no value is lost."""
    taken: set[str] = set()
    chosen = []
    for name in names:
        fresh, number = name, 2
        while fresh in taken or (fresh != name and fresh in names):
            fresh, number = f"{name}_{number}", number + 1
        taken.add(fresh)
        chosen.append(fresh)
    return chosen
