"""Inner log: what runs inside a node writes into the log of its run, as ``NODE.INNER``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from agents.core.nodes import NodeRun, Pause, RunLog


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where in a run something is at work: ``prefix`` of its nodes, flows from the outermost on.

    ``prompts`` are those of the innermost flow, None for the run's own; ``is_quiet``: what it
    says is not for people.
    """

    prefix: str = ""
    flows: tuple[str, ...] = ()
    prompts: Mapping[str, str] | None = field(default=None, repr=False)
    is_quiet: bool = False

    def inside(self, node: str, visit: int, *, is_quiet: bool = False) -> RunPlace:
        """Return the place inside a visit of a node."""
        again = f"@{visit}" if visit > 1 else ""
        is_quiet = is_quiet or self.is_quiet
        return replace(self, prefix=f"{self.prefix}{node}{again}.", is_quiet=is_quiet)


class LendsPlaces(RunLog, Protocol):
    """A log that lends a node what it needs, wherever in the run it is."""

    def lend(self, place: RunPlace, node: str, visit: int) -> NodeRun:
        """Return the context of a visit at a place."""


class InnerLog:
    """``agents.core.nodes.RunLog`` of a place inside a run."""

    def __init__(self, log: LendsPlaces, place: RunPlace) -> None:
        self._log, self._place = log, place

    def recorded(self, node: str, visit: int) -> Mapping[str, Any] | Pause | None:
        """Return the update of a visit that was finished before."""
        return self._log.recorded(self._place.prefix + node, visit)

    def node_run(self, node: str, visit: int) -> NodeRun:
        """Return the context of a visit."""
        return self._log.lend(self._place, node, visit)

    async def started(self, node: str, visit: int) -> None:
        """Note that a visit begins."""
        await self._log.started(self._place.prefix + node, visit)

    async def finished(self, node: str, visit: int, update: Mapping[str, Any]) -> None:
        """Note what came of a visit."""
        await self._log.finished(self._place.prefix + node, visit, update)

    async def routed(
        self, node: str, visit: int, route: Mapping[str, Any], tests: Sequence[Mapping[str, Any]]
    ) -> None:
        """Note where it goes on."""
        await self._log.routed(self._place.prefix + node, visit, route, tests)

    async def paused(self, node: str, visit: int, pause: Pause) -> None:
        """Note that a person must decide."""
        await self._log.paused(self._place.prefix + node, visit, pause)

    async def failed(self, node: str, visit: int) -> None:
        """Note where it broke off."""
        await self._log.failed(self._place.prefix + node, visit)


def outputs_at(
    place: RunPlace, updates: Mapping[tuple[str, int], Mapping[str, Any]]
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return what the nodes of a place gave, by their names there, in their order."""
    n = len(place.prefix)
    return [
        (node[n:], one)
        for (node, _), one in updates.items()
        if node.startswith(place.prefix) and "." not in node[n:]
    ]
