"""Retrieval node: queries several data sources and keeps results by source within a token limit.

A source that fails is recorded and, with ``on_error: continue``, costs the others nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext_noop

from agents.core.nodes import NodeRun, SourceQueries, register_node
from agents.core.prompts import fill_prompt
from agents.core.source_configs import DataSourceConfig, RagNodeConfig
from agents.core.state import Replace
from agents.flows.definition.source_results import dependent_values, fit_results, shape_results
from agents.flows.definition.state import source_values, user_query
from rag.core.errors import InvalidInputError, ProviderError, RAGError
from rag.services.sources import SourceCall, SourceOutcome


@dataclass(slots=True)
class _SourceResults:
    results: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    durations_ms: dict[str, float] = field(default_factory=dict)
    errors: dict[str, RAGError] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


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
        text = fill_prompt(config.query, values).strip() if config.query else user_query(state)
        if not text:
            raise InvalidInputError("The node “{name}” has no query.", name=run.node)
        found = _SourceResults()
        if config.query_strategy == "parallel":
            await _ask(config.data_sources, config, _Question(run, text, values), found)
        else:
            await _ask_in_turn(config, _Question(run, text, values), found)
        kept, cut = fit_results(found.results, config.max_tokens, run.count_tokens)
        for name in cut:
            found.notes.append(
                f"{name}: {len(kept[name])} of {len(found.results[name])} results kept within "
                f"{config.max_tokens} tokens."
            )
        context = _context(run.node, text, config, found, kept)
        await run.emit(
            "rag_results",
            {
                "result_key": config.result_key,
                "results": kept,
                **{
                    name: context[name]
                    for name in ("counts", "durations_ms", "errors", "notes")
                    # As templates: whoever looks at the run reads them in another language.
                },
                "faults": {name: error.as_dict() for name, error in found.errors.items()},
            },
        )
        is_new = config.merge_strategy == "replace"
        return {
            config.result_key: Replace(kept) if is_new else kept,
            "query_context": context,
        }


@dataclass(frozen=True, slots=True)
class _Question:
    run: NodeRun
    text: str
    values: Mapping[str, Any]


async def _ask(
    sources: Sequence[DataSourceConfig],
    config: RagNodeConfig,
    question: _Question,
    found: _SourceResults,
) -> None:
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
    asked = SourceQueries(calls, question.text, question.values, ttls)
    outcomes = await question.run.ask_sources(asked)
    for source, outcome in zip(sources, outcomes, strict=True):
        _note(source, outcome, config, found)


async def _ask_in_turn(config: RagNodeConfig, question: _Question, found: _SourceResults) -> None:
    """Ask each source when those that it depends on have answered, else in the file's order."""
    waiting = list(config.data_sources)
    values = dict(question.values)
    done: set[str] = set()
    while waiting:
        source = next(one for one in waiting if set(one.depends_on) <= done)
        waiting.remove(source)
        done.add(source.key)
        failed = [name for name in source.depends_on if name in found.errors]
        if failed:
            found.results[source.key] = []
            found.errors[source.key] = ProviderError(
                "Not asked: it needs “{name}”, which failed.", name=failed[0]
            )
            continue
        await _ask([source], config, _Question(question.run, question.text, values), found)
        values = {**values, **dependent_values(source.key, found.results[source.key])}


def _note(
    source: DataSourceConfig, outcome: SourceOutcome, config: RagNodeConfig, found: _SourceResults
) -> None:
    found.durations_ms[source.key] = round(outcome.duration_ms, 1)
    found.results[source.key] = shape_results(outcome.hits, config.result_format)
    found.notes += [f"{source.key}: {note}" for note in outcome.notes]
    if outcome.error is None:
        return
    found.errors[source.key] = outcome.error
    if source.on_error == "fail":
        raise ProviderError(
            "The source “{name}” failed: {reason}",
            hint="With on_error: continue the flow goes on without it.",
            name=source.key,
            reason=outcome.message,
        ) from outcome.error


def _context(
    node: str,
    text: str,
    config: RagNodeConfig,
    found: _SourceResults,
    kept: Mapping[str, Sequence[Any]],
) -> dict[str, Any]:
    counts = {name: len(results) for name, results in kept.items()}
    described = {
        "query_text": text,
        "query_time": datetime.now(UTC).isoformat(),
        "data_sources": [source.key for source in config.data_sources],
        "result_count": sum(counts.values()),
        "counts": counts,
        "durations_ms": found.durations_ms,
        "errors": {name: str(error) for name, error in found.errors.items()},
        "notes": found.notes,
    }
    return {**described, "nodes": {node: described}}
