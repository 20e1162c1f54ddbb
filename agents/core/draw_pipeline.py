"""A pipeline to look at. In: a pipeline. Out: mermaid text, or nodes and edges as JSON."""

from __future__ import annotations

from typing import Any

from agents.core.pipeline import END, Pipeline

START = "START"


def pipeline_json(pipeline: Pipeline) -> dict[str, Any]:
    """Return ``nodes`` (name, stage, timeout, has_fallback) and ``edges`` (source, target, kind).

    ``kind`` is always or conditional.
    """
    nodes = [
        {"name": step.name, "stage": number, "timeout": step.timeout,
         "has_fallback": step.fallback is not None}
        for number, stage in enumerate(pipeline.stages)
        for step in stage
    ]  # fmt: skip
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
    stages = [[step.name for step in stage] for stage in pipeline.stages] or [[]]
    edges = [_edge(START, name) for name in stages[0]]
    for number, names in enumerate(stages):
        branch = pipeline.branch_after(number) if names else None
        following = stages[number + 1] if number + 1 < len(stages) else [END]
        for name in names:
            if branch is None:
                edges += [_edge(name, target) for target in following]
            else:
                # All steps of a stage begin with the one that is named.
                begun = [
                    step
                    for target in branch.targets
                    for step in ([END] if target == END else stages[pipeline.stage_of(target)])
                ]
                edges += [_edge(name, target, "conditional") for target in begun]
    return edges


def _edge(source: str, target: str, kind: str = "always") -> dict[str, str]:
    return {"source": source, "target": target, "kind": kind}
