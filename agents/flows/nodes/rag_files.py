"""File RAG node: answers from a store of files, or from files by their addresses.

It is the RAG node of the graph builder, fileSearch and multimodal, with the same field names.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from django.utils.translation import gettext_noop

from agents.core.nodes import FileQuery, NodeRun, register_node
from agents.flows.definition.node_configs import RagFilesConfig
from agents.flows.definition.source_results import fit_results
from agents.flows.definition.state import template_context
from rag.core.errors import CancelledError, ConfigurationError, RAGError


@register_node
class RagFilesNode:
    """Answers from files, wherever they are kept, and says from which."""

    name = "rag_files"
    label = gettext_noop("Answer from files")
    Config = RagFilesConfig

    async def run(
        self, state: Mapping[str, Any], config: RagFilesConfig, run: NodeRun
    ) -> dict[str, Any]:
        """Return the answer as a turn, its documents as results, its facts under the node's name.

        With ``on_error: continue`` what fails is reported under the node's name as ``error``.
        """
        context = template_context(state, run.outputs())
        started = monotonic()
        faults: dict[str, Any] = {}
        try:
            output = await run.ask_files(
                FileQuery(config.data, context, config.node_id, config.timeout)
            )
        except (CancelledError, ConfigurationError):
            raise
        except RAGError as error:
            if config.on_error == "fail":
                raise
            output = {"error": str(error), "documents": [], "documentCount": 0}
            faults = {run.node: error.as_dict()}
        found = {run.node: _results(output)}
        kept, cut = fit_results(found, config.max_tokens, run.count_tokens)
        described = _described(config, run, output, len(kept[run.node]))
        described["durations_ms"] = {run.node: round((monotonic() - started) * 1e3, 1)}
        if cut:
            described["notes"].append(
                f"{run.node}: {len(kept[run.node])} of {len(found[run.node])} results kept within "
                f"{config.max_tokens} tokens."
            )
        await run.emit(
            "rag_results",
            {
                "result_key": config.result_key,
                "results": kept,
                **{name: described[name] for name in ("counts", "durations_ms", "errors", "notes")},
                # As a template: whoever looks at the run reads it in another language.
                "faults": faults,
            },
        )
        answer = str(output.get("answer") or "")
        return {
            config.result_key: kept,
            "query_context": {**described, "nodes": {run.node: described}},
            "prompt_vars": {run.node: {"label": config.label, **output}},
            "flow_msgs": [{"role": "assistant", "content": answer}] if answer else [],
        }


def _results(output: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return documents with their sources; of an answer from whole files, the files."""
    citations = output.get("citations") or []
    sources = {one["chunk"]: one["source"] for one in citations}
    whole = ", ".join(dict.fromkeys(one["source"] for one in citations if not one["chunk"]))
    return [
        {"content": text, "metadata": {"source": sources.get(text) or whole}}
        for text in output.get("documents") or []
    ]


def _described(
    config: RagFilesConfig, run: NodeRun, output: Mapping[str, Any], n_kept: int
) -> dict[str, Any]:
    asked = [config.fileSearchStoreName or config.node_id or output.get("mode") or run.node]
    return {
        "query_text": output.get("query") or "",
        "query_time": datetime.now(UTC).isoformat(),
        "data_sources": asked,
        "result_count": n_kept,
        "counts": {run.node: n_kept},
        "errors": {run.node: output["error"]} if output.get("error") else {},
        "notes": [*(output.get("warnings") or []), *filter(None, [output.get("notice")])],
    }
