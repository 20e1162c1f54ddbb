"""Retrieval node: queries several data sources and keeps results by source within a token limit.

A source that fails is recorded and, with ``on_error: continue``, costs the others nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext_noop

from agents.core.cited_answers import serialize_sources
from agents.core.nodes import NodeRun, SourceQueries, register_node
from agents.core.prompts import fill_prompt
from agents.core.source_configs import DataSourceConfig, RagNodeConfig
from agents.core.state import Replace
from agents.flows.definition.node_configs import RagFilesConfig
from agents.flows.definition.source_results import (
    dependent_values,
    fit_results,
    hits_of,
    shape_results,
)
from agents.flows.definition.state import source_values, user_query
from rag.core.errors import InvalidInputError, ProviderError, RAGError
from rag.core.hits import Hit
from rag.services.sources import SourceCall, SourceOutcome


@dataclass(slots=True)
class _Retrieval:
    """What one visit asks of its sources, and what they have answered so far."""

    run: NodeRun
    config: RagNodeConfig
    text: str
    values: Mapping[str, Any]
    results: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    hits: dict[str, Sequence[Hit]] = field(default_factory=dict)
    durations_ms: dict[str, float] = field(default_factory=dict)
    errors: dict[str, RAGError] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    async def ask(self, sources: Sequence[DataSourceConfig]) -> None:
        outcomes = await ask_sources(self.run, sources, self.text, self.values)
        for source, outcome in zip(sources, outcomes, strict=True):
            self.durations_ms[source.key] = round(outcome.duration_ms, 1)
            self.hits[source.key] = outcome.hits
            self.results[source.key] = shape_results(outcome.hits, self.config.result_format)
            self.notes += [f"{source.key}: {note}" for note in outcome.notes]
            if outcome.error is not None:
                self.errors[source.key] = outcome.error
            if outcome.error is not None and source.on_error == "fail":
                raise ProviderError(
                    "The source “{name}” failed: {reason}",
                    hint="With on_error: continue the flow goes on without it.",
                    name=source.key,
                    reason=outcome.message,
                ) from outcome.error

    async def ask_in_turn(self) -> None:
        """Ask each source when those that it depends on have answered, else in the file's order."""
        waiting = list(self.config.data_sources)
        done: set[str] = set()
        while waiting:
            source = next(one for one in waiting if set(one.depends_on) <= done)
            waiting.remove(source)
            done.add(source.key)
            failed = [name for name in source.depends_on if name in self.errors]
            if failed:
                self.results[source.key] = []
                self.errors[source.key] = ProviderError(
                    "Not asked: it needs “{name}”, which failed.", name=failed[0]
                )
                continue
            await self.ask([source])
            results, hits = self.results[source.key], self.hits[source.key]
            found = dependent_values(source.key, results, hits)
            self.values = {**self.values, **found}


@register_node
class RagNode:
    """Retrieves from data sources into the state."""

    name = "rag"
    label = gettext_noop("Retrieval")
    Config = RagNodeConfig

    async def run(
        self, state: Mapping[str, Any], config: RagNodeConfig, run: NodeRun
    ) -> dict[str, Any]:
        """Return results under ``result_key`` and a ``query_context``.

        Raises ProviderError when a source with ``on_error: fail`` failed.
        """
        values = source_values(state)
        text = (
            fill_prompt(config.query, values, missing="").strip()
            if config.query
            else user_query(state)
        )
        if not text:
            raise InvalidInputError("The node “{name}” has no query.", name=run.node)
        found = _Retrieval(run, config, text, values)
        if config.query_strategy == "parallel":
            await found.ask(config.data_sources)
        else:
            await found.ask_in_turn()
        about = {
            "hits": found.hits,
            "query_text": text,
            "data_sources": [source.key for source in config.data_sources],
            "durations_ms": found.durations_ms,
            "errors": {name: str(error) for name, error in found.errors.items()},
            "notes": found.notes,
        }
        update = await report_results(run, config, found.results, about, found.errors)
        if config.merge_strategy == "replace":
            update[config.result_key] = Replace(update[config.result_key])
        return update


async def ask_sources(
    run: NodeRun, sources: Sequence[DataSourceConfig], text: str, values: Mapping[str, Any]
) -> list[SourceOutcome]:
    """Return one outcome per source, in their order; what failed is an outcome, too."""
    calls = [
        SourceCall(
            name=source.key,
            plugin=source.type,
            options=source.options,
            timeout_s=source.timeout,
            retries=source.retries,
        )
        for source in sources
    ]
    ttls = {source.key: source.cache_ttl for source in sources if source.cache_ttl}
    # A name that is not set yet is empty: NULL for a database, left out of parameters.
    unset = {name: None for source in sources for name in source.placeholders()}
    values = {**unset, **values}
    return await run.ask_sources(SourceQueries(calls, text, values, ttls))


async def report_results(
    run: NodeRun,
    config: RagNodeConfig | RagFilesConfig,
    results: Mapping[str, list[dict[str, Any]]],
    about: Mapping[str, Any],
    faults: Mapping[str, RAGError],
) -> dict[str, Any]:
    """Return what fits into the node's tokens and its ``query_context``; tell who watches of it.

    ``about`` has query_text, data_sources, durations_ms, errors, notes, and perhaps the hits that
    the results were made of. What is kept is numbered, for the run's texts to cite.
    """
    kept, cut = fit_results(results, config.max_tokens, run.count_tokens)
    counts = {name: len(found) for name, found in kept.items()}
    limited = [
        f"{name}: {counts[name]} of {len(results[name])} results kept within "
        f"{config.max_tokens} tokens."
        for name in cut
    ]
    told = {
        "counts": counts,
        "durations_ms": about["durations_ms"],
        "errors": about["errors"],
        "notes": [*about["notes"], *limited],
    }
    # As templates: whoever looks at the run reads them in another language.
    templates = {name: error.as_dict() for name, error in faults.items()}
    hits = about.get("hits") or {}
    found = [hit for name, one in kept.items() for hit in hits_of(name, one, hits.get(name, ()))]
    event = {
        "result_key": config.result_key,
        "results": kept,
        "passages": serialize_sources(run.passages.number(found)),
        **told,
        "faults": templates,
    }
    await run.emit("rag_results", event)
    context = {
        "query_text": about["query_text"],
        "query_time": datetime.now(UTC).isoformat(),
        "data_sources": about["data_sources"],
        "result_count": sum(counts.values()),
        **told,
    }
    return {config.result_key: kept, "query_context": {**context, "nodes": {run.node: context}}}
