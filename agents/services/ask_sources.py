"""Sources of a flow, asked or remembered. In: calls, who asks. Out: one outcome per call."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from agents.core.nodes import SourcesAsked
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.hits import Hit
from rag.services.caches import place_of
from rag.services.run_sources import run_sources
from rag.services.source_calls import SourceCall, SourceOutcome

_NAMED = re.compile(r"\{([^\W\d]\w*)\}")


def ask_sources(*, asked: SourcesAsked, scope: Scope, deadline: Deadline) -> list[SourceOutcome]:
    """Return outcomes in the order of the calls; only what succeeded is remembered.

    What is remembered is found again by the same rights, question, options and named values
    alone. Until its time is over it may be older than the source.
    """
    names = {
        call.name: _name(call, asked, scope) for call in asked.calls if asked.ttls_s.get(call.name)
    }
    found: dict[str, SourceOutcome] = {}
    for call in asked.calls:
        kept = place_of("results").find(names[call.name]) if call.name in names else None
        if kept is not None:
            found[call.name] = _outcome(call, json.loads(kept))
    calls = [call for call in asked.calls if call.name not in found]
    fresh = run_sources(
        calls=calls, text=asked.text, scope=scope, values=asked.values, deadline=deadline
    ) if calls else []  # fmt: skip
    for outcome in fresh:
        found[outcome.name] = outcome
        if outcome.error is None and outcome.name in names:
            place_of("results").keep(
                names[outcome.name], _bytes(outcome), asked.ttls_s[outcome.name]
            )
    return [found[call.name] for call in asked.calls]


def _name(call: SourceCall, asked: SourcesAsked, scope: Scope) -> str:
    options = json.dumps(call.options, sort_keys=True, ensure_ascii=False, default=str)
    # For whom is asked counts always, also where a source looks it up without naming it.
    names = {*_NAMED.findall(options), "token_id"}
    values = {name: asked.values.get(name) for name in names if name in asked.values}
    parts: Mapping[str, Any] = {
        "kind": "flow source", "plugin": call.plugin, "options": options, "text": asked.text,
        "values": values, "scope": scope.fingerprint,
    }  # fmt: skip
    raw = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)
    return place_of("results").seal.name(raw.encode("utf-8", "surrogatepass"))


def _bytes(outcome: SourceOutcome) -> bytes:
    kept = {"hits": [hit.as_dict() for hit in outcome.hits], "notes": list(outcome.notes)}
    return json.dumps(kept, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _outcome(call: SourceCall, kept: Mapping[str, Any]) -> SourceOutcome:
    hits = tuple(map(Hit.from_dict, kept["hits"]))
    return SourceOutcome(
        name=call.name, plugin=call.plugin, status="ok" if hits else "empty", hits=hits,
        notes=tuple(kept["notes"]), attempts=0,
    )  # fmt: skip
