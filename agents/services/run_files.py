"""Files asked by a flow. In: a builder's node, what it refers to, who asks. Out: what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.core.nodes import FilesAsked
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.node import RAGNodeData
from rag.services.run_rag_node import NodeRun, execute_node
from rag.services.save_node import find_node, keep_results


def run_files(*, asked: FilesAsked, scope: Scope, deadline: Deadline) -> dict[str, Any]:
    """Return query, documents, documentCount, mode, answer and perhaps citations.

    A saved node must be of whoever ``scope`` is, and keeps what was asked last. Raises RAGError.
    """
    node = find_node(scope=scope, node_id=asked.node_id) if asked.node_id else None
    saved: Mapping[str, Any] = node.node_data.as_wire() if node else {}
    data = RAGNodeData.from_wire(_joined(saved, asked.data))
    own = Deadline(min(asked.timeout_s, max(0.001, deadline.remaining_s)))
    with deadline.on_cancel(own.cancel):
        output = execute_node(
            run=NodeRun(data=data, context=asked.context), scope=scope, deadline=own
        )
    if node:
        keep_results(node=node, query=output["query"], documents=output["documents"])
    return output


def _joined(saved: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    mappings = {**(saved.get("inputMappings") or {}), **(said.get("inputMappings") or {})}
    # What a saved node does not say is what the person said.
    mappings.setdefault("query", "{{user_query}}")
    return {**saved, **said, "inputMappings": mappings}
