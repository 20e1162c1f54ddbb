"""Iteration node: runs a node of any type for each item of a list, several at once, bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Literal, Self

from django.utils.translation import gettext_noop
from pydantic import Field, ValidationError, model_validator

from agents.core.gather import gather_or_cancel
from agents.core.nodes import NodeRun, Pause, RunLog, Waiting, node_type, register_node
from agents.core.state import FIELDS, Replace, to_storable
from agents.flows.definition.definition import NodeTypeName
from agents.flows.definition.node_configs import NodeOptions, VariableName
from agents.flows.definition.state import filled_value, last_turn
from rag.core.errors import (
    CancelledError,
    ConfigurationError,
    InvalidInputError,
    LimitError,
    RAGError,
)

MAX_ITEMS, MAX_PARALLEL = 1000, 20
_OF_TEXTS = ("parse_error", "failed_node", "failure")


class InnerNode(NodeOptions):
    """Type and options of the node that is run for each item."""

    type: NodeTypeName
    config: dict[str, Any] = {}


class IterationConfig(NodeOptions):
    """``items`` is a list, or ``{name}`` of one. ``node`` is told ``{item}`` and ``{index}``; what
    it comes to is collected in ``result_key``: its text, its variables, or those two under
    ``text`` and their names, or one variable alone (``output``). With ``on_error: continue`` an
    item that fails is None there, and counted in ``n_failed``."""

    items: str | list[Any]
    node: InnerNode
    parallel: int = Field(default=4, ge=1, le=MAX_PARALLEL)
    max_items: int = Field(default=100, ge=1, le=MAX_ITEMS)
    on_error: Literal["continue", "fail"] = "fail"
    output: str = ""
    result_key: VariableName = "results"

    @model_validator(mode="after")
    def _sound(self) -> Self:
        try:
            node_type(self.node.type).Config.model_validate(self.node.config)
        except RAGError as error:
            raise ValueError(str(error)) from None
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, ("config", *first["loc"])))
            raise ValueError(f"node.{place}: {first['msg']}") from None
        if self.node.type == IterationNode.name:
            raise ValueError("an iteration in an iteration: put the inner one into a flow")
        return self

    def sets(self) -> frozenset[str]:
        """Return the variables of the results, and those that the inner node is told."""
        return frozenset({self.result_key, "n_failed", "item", "index"})

    def texts(self) -> Mapping[str, Any]:
        """Return what is filled."""
        return {"items": self.items}

    def inner(self) -> tuple[str, Any]:
        """Return type and options of the inner node."""
        return self.node.type, node_type(self.node.type).Config.model_validate(self.node.config)


@register_node
class IterationNode:
    """Runs a node for each item of a list."""

    name = "iteration"
    label = gettext_noop("Iteration")
    Config = IterationConfig

    async def run(
        self, state: Mapping[str, Any], config: IterationConfig, run: NodeRun
    ) -> dict[str, Any] | Waiting:
        """Return the results in the order of the items; nothing of it is said to people."""
        items = filled_value(config.items, state)
        if items is None:
            items = []
        if not isinstance(items, list):
            raise InvalidInputError("The items of “{name}” are no list.", name=run.node)
        if len(items) > config.max_items:
            raise LimitError(
                "“{name}” has {n} items.",
                hint="At most {limit}: take fewer, or raise max_items up to {most}.",
                name=run.node,
                n=len(items),
                limit=config.max_items,
                most=MAX_ITEMS,
            )
        log, turns = run.inside(), asyncio.Semaphore(config.parallel)
        work = [
            _done(config, {**state}, (number, item), log, turns)
            for number, item in enumerate(items)
        ]
        found = await gather_or_cancel(work)
        if any(isinstance(one, Pause) for one in found):
            return Waiting()
        failed = [one for one in found if isinstance(one, RAGError)]
        results = [None if isinstance(one, RAGError) else one for one in found]
        return {"edges_var": {config.result_key: results, "n_failed": len(failed)}}


async def _done(
    config: IterationConfig,
    state: dict[str, Any],
    numbered: tuple[int, Any],
    log: RunLog,
    turns: asyncio.Semaphore,
) -> Any:
    """Return what an item comes to: recorded, worked out now, a pause, or its error."""
    number, item = numbered
    state["edges_var"] = {**(state.get("edges_var") or {}), "item": item, "index": number}
    name = str(number + 1)
    async with turns:
        recorded = log.recorded(name, 1)
        if recorded is None:
            try:
                recorded = await _visited(config, state, name, log)
            except (CancelledError, ConfigurationError):
                raise
            except RAGError as error:
                if config.on_error == "fail":
                    raise
                return error
    return recorded if isinstance(recorded, Pause) else _outcome(recorded, config.output)


async def _visited(
    config: IterationConfig, state: Mapping[str, Any], name: str, log: RunLog
) -> Mapping[str, Any] | Pause:
    kind, options = config.inner()
    await log.started(name, 1)
    lent = log.node_run(name, 1)
    try:
        lent.deadline.check()
        update = await node_type(kind)().run(state, options, lent)
    except RAGError:
        await log.failed(name, 1)
        raise
    if isinstance(update, Pause):
        await log.paused(name, 1, update)
        return update
    kept = to_storable(update)
    await log.finished(name, 1, kept)
    return kept


def _outcome(update: Mapping[str, Any], output: str) -> Any:
    plain = {key: one.value if isinstance(one, Replace) else one for key, one in update.items()}
    own = {key: one for key, one in plain.items() if key not in FIELDS or key == "rag_results"}
    told = {k: v for k, v in (plain.get("edges_var") or {}).items() if k not in _OF_TEXTS}
    values = {**own, **told}
    text = last_turn(plain)
    if output:
        return values.get(output, text if output == "text" else None)
    if not values:
        return text
    return {**values, "text": text} if text else values
