"""Pipeline export: mermaid text, or nodes and edges as JSON."""

from __future__ import annotations

from typing import Any

from agents.core.pipeline import END, Pipeline

START = "START"


def pipeline_json(pipeline: Pipeline) -> dict[str, Any]:
    """Return ``nodes`` (name, stage, timeout, has_fallback) and ``edges`` (source, target, kind).

    ``kind`` is always or conditional.
    """
    nodes = [
        {
            "name": step.name,
            "stage": number,
            "timeout": step.timeout,
            "has_fallback": step.fallback is not None,
        }
        for number, stage in enumerate(pipeline.stages)
        for step in stage
    ]
    return {"nodes": nodes, "edges": _edges(pipeline)}


def pipeline_mermaid(pipeline: Pipeline) -> str:
    """Return a flowchart; dotted arrows are taken by decision."""
    lines = ["flowchart TD", f"    {START}([start])", f"    {END}([end])"]
    lines += [f"    {name}[{name}]" for name in pipeline.names]
    for edge in _edges(pipeline):
        arrow = "-.->" if edge["kind"] == "conditional" else "-->"
        lines.append(f"    {edge['source']} {arrow} {edge['target']}")
    return "\n".join(lines) + "\n"


def _edges(pipeline: Pipeline) -> list[dict[str, str]]:
    stages = [[step.name for step in stage] for stage in pipeline.stages]
    edges = []
    for number, names in enumerate([[START], *stages], start=-1):
        kind = "conditional" if pipeline.is_decided(number) else "always"
        # All steps of a stage begin together.
        begun = [name for way in pipeline.possible_next(number) for name in [*stages, [END]][way]]
        edges += [
            {"source": source, "target": target, "kind": kind}
            for source in names
            for target in begun
        ]
    return edges
