"""A RAG node of a builder, run. In: its data, earlier outputs, who asks. Out: what it outputs.

The order of a node: query, files, mode, answer. Templates are looked up, never evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext

from rag.conf import conf
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError, RAGError
from rag.core.file_search import GroundedAnswer, GroundedQuestion
from rag.core.node import MULTIMODAL, SLOTS, FileRef, RAGNodeData, pick_mode, valid_files
from rag.services.answer_files import answer_files
from rag.services.answer_wire import answer_wire
from rag.services.ask_stores import ask_stores
from rag.services.fetch_files import fetched_files
from rag.stages.find_text import find_text
from rag.stages.resolve import resolve_template


@dataclass(frozen=True, slots=True)
class NodeRun:
    """What a node is run with; ``context`` maps node ids to outputs, in the order they ran.

    ``hosts`` are names of this very server, whose download addresses are ours.
    """

    data: RAGNodeData
    context: Mapping[str, Any] = field(default_factory=dict)
    mock_data: Mapping[str, Any] = field(default_factory=dict)
    hosts: Sequence[str] = ()


def run_rag_node(*, run: NodeRun, scope: Scope, deadline: Deadline | None = None) -> dict[str, Any]:
    """Return query, documents, citations, documentCount and mode, or ``{"error": …}``.

    ``warnings`` name references that found nothing; ``answer`` is the answer as one text. Without
    a ``deadline`` a node takes twice the time that a model may take.
    """
    try:
        return execute_node(run=run, scope=scope, deadline=deadline)
    except RAGError as error:
        return {"error": error.localized(gettext)}


def execute_node(*, run: NodeRun, scope: Scope, deadline: Deadline | None = None) -> dict[str, Any]:
    """Return what ``run_rag_node`` returns; what goes wrong is raised."""
    deadline = deadline or Deadline(2 * conf().timeout_s)
    missing: list[str] = []
    query = _query(run, missing)
    if not query:
        raise InvalidInputError("查询内容不能为空")
    files = _files(run, missing)
    mode = pick_mode(run.data.file_mode, len(files))
    answer = _answer(run, query, files if mode == MULTIMODAL else (), scope, deadline)
    wire = answer_wire(answer, mode)
    output = {"query": query, **wire, "documentCount": len(wire["documents"]), "mode": mode}
    if missing:
        output["warnings"] = [
            gettext("“{path}” was found in no earlier node.").format(path=path)
            for path in dict.fromkeys(missing)
        ]
    return output


def _query(run: NodeRun, missing: list[str]) -> str:
    mock = run.mock_data.get("query")
    if isinstance(mock, str) and mock.strip():
        return mock.strip()
    template = run.data.input_mappings.query
    if template.strip():
        found = resolve_template(template, run.context)
        missing += found.missing
        return found.text.strip()
    return find_text(run.context)


def _files(run: NodeRun, missing: list[str]) -> tuple[FileRef, ...]:
    files: list[FileRef] = []
    for slot in SLOTS:
        template: str = getattr(run.data.input_mappings, slot)
        if template.strip():
            found = resolve_template(template, run.context)
            missing += found.missing
            files += valid_files(found.value)
    return tuple(files)


def _answer(
    run: NodeRun, query: str, files: Sequence[FileRef], scope: Scope, deadline: Deadline
) -> GroundedAnswer:
    if files:
        with fetched_files(refs=files, scope=scope, deadline=deadline, hosts=run.hosts) as found:
            return answer_files(question=query, files=found, scope=scope, deadline=deadline)
    store = run.data.file_search_store_name
    if not store:
        raise InvalidInputError("未指定 FileSearchStore")
    return ask_stores(question=GroundedQuestion(query, [store]), scope=scope, deadline=deadline)
