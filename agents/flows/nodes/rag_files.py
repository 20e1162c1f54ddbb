"""File RAG node: answers from a store of files, or from files by their addresses.

It is the RAG node of the graph builder, fileSearch and multimodal, with the same field names.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Any

from django.utils.translation import gettext_noop

from agents.core.nodes import FileQuery, NodeRun, register_node
from agents.flows.definition.node_configs import RagFilesConfig
from agents.flows.definition.state import template_context
from agents.flows.nodes.rag import report_results
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
        faults: dict[str, RAGError] = {}
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
            faults = {run.node: error}
        asked = config.fileSearchStoreName or config.node_id or output.get("mode") or run.node
        about = {
            "query_text": output.get("query") or "",
            "data_sources": [asked],
            "durations_ms": {run.node: round((monotonic() - started) * 1e3, 1)},
            "errors": {run.node: output["error"]} if output.get("error") else {},
            "notes": [*(output.get("warnings") or []), *filter(None, [output.get("notice")])],
        }
        answer = str(output.get("answer") or "")
        return {
            **await report_results(run, config, {run.node: _results(output)}, about, faults),
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
