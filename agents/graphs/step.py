"""Where a run stands between two steps of its engine. In: what nodes say. Out: it, merged."""

from __future__ import annotations

from dataclasses import dataclass

# No field of a state can have this name.
STEP = "#step"


@dataclass(frozen=True, slots=True)
class Step:
    """Which nodes are at work in a step, and which wait for a person."""

    number: int
    active: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()


def next_step(old: Step | None, new: Step) -> Step:
    if old is None or new.number > old.number:
        return new
    paused = dict.fromkeys((*old.paused, *new.paused))
    return Step(new.number, tuple(dict.fromkeys((*old.active, *new.active))), tuple(paused))
