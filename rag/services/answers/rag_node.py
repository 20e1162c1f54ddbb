"""RAG nodes of a workflow builder: run, save and serialize.

A run resolves query, files, mode and answer in this order; templates are looked up, never
evaluated.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import transaction
from django.db.models import Count
from django.utils.translation import gettext

from rag import models
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import ForbiddenError, InvalidInputError, NotFoundError, RAGError
from rag.core.rag_node import MULTIMODAL, SLOTS, FileRef, RAGNodeData, pick_mode, valid_files
from rag.core.sources import AnswerRequest
from rag.services.answers.file_search import answer_grounded, serialize_answer
from rag.services.stores import create_named_store, delete_store, find_stores
from rag.stages.prompting.templates import resolve_template
from rag.stages.query.condense import infer_question


@dataclass(frozen=True, slots=True)
class RagNodeRequest:
    """What a node is run with; ``context`` maps node ids to outputs, in the order they ran.

    ``hosts`` are names of this very server, whose download addresses are ours. ``node`` is the
    saved one, if there is one.
    """

    data: RAGNodeData
    context: Mapping[str, Any] = field(default_factory=dict)
    mock_data: Mapping[str, Any] = field(default_factory=dict)
    hosts: Sequence[str] = ()
    node: models.RagNode | None = None


def run_rag_node(*, run: RagNodeRequest, scope: Scope, deadline: Deadline) -> dict[str, Any]:
    """Return query, documents, citations, documentCount and mode; raise RAGError.

    ``warnings`` name references that found nothing; ``answer`` is the answer as one text. A saved
    node keeps what was asked last and found.
    """
    missing: list[str] = []
    query = _query(run, missing)
    if not query:
        raise InvalidInputError("查询内容不能为空")
    files = _files(run, missing)
    mode = pick_mode(run.data.file_mode, len(files))
    files = files if mode == MULTIMODAL else ()
    store = run.data.file_search_store_name
    if not files and not store:
        raise InvalidInputError("未指定 FileSearchStore")
    asked = AnswerRequest(query, () if files else (store,), files)
    answer = answer_grounded(asked=asked, scope=scope, deadline=deadline, hosts=run.hosts)
    wire = serialize_answer(answer, mode)
    output = {"query": query, **wire, "documentCount": len(wire["documents"]), "mode": mode}
    if missing:
        output["warnings"] = [
            gettext("“{path}” was found in no earlier node.").format(path=path)
            for path in dict.fromkeys(missing)
        ]
    if run.node is not None:
        save_rag_node_results(node=run.node, query=query, documents=output["documents"])
    return output


def _query(run: RagNodeRequest, missing: list[str]) -> str:
    mock = run.mock_data.get("query")
    if isinstance(mock, str) and mock.strip():
        return mock.strip()
    template = run.data.input_mappings.query
    if template.strip():
        found = resolve_template(template, run.context)
        missing += found.missing
        return found.text.strip()
    return infer_question(run.context)


def _files(run: RagNodeRequest, missing: list[str]) -> tuple[FileRef, ...]:
    files: list[FileRef] = []
    for slot in SLOTS:
        template: str = getattr(run.data.input_mappings, slot)
        if template.strip():
            found = resolve_template(template, run.context)
            missing += found.missing
            files += valid_files(found.value)
    return tuple(files)


STATES = models.File.Status
MAX_ID = 200
# What is true of a store's files, worst first.
_STATUSES = (
    (STATES.ERROR, "error"),
    (STATES.UPLOADING, "uploading"),
    (STATES.PROCESSING, "processing"),
    (STATES.COMPLETED, "completed"),
)


def save_rag_node(*, scope: Scope, node_id: str, data: RAGNodeData) -> models.RagNode:
    """Keep a node's data as its owner has it; one without a store gets one made.

    Its display name, ``store-{first 8 of the node id}-{milliseconds}``, is the node's store id.
    Raises ForbiddenError without a user, InvalidInputError for an unusable id, NotFoundError for a
    store that the caller may not read.
    """
    if scope.user_id is None:
        raise ForbiddenError("Nodes belong to users.", hint="Sign in.")
    if not node_id.strip() or len(node_id) > MAX_ID or "\0" in node_id:
        raise InvalidInputError(
            "The node's id has {n} characters.",
            hint="Allowed: {low} to {high}.",
            n=len(node_id),
            low=1,
            high=MAX_ID,
        )
    named = data.file_search_store_name
    store = find_stores(names=[named], scope=scope)[0] if named else None
    node, _ = models.RagNode.objects.get_or_create(owner_id=scope.user_id, node_id=node_id)
    is_hidden = not models.RagNode.objects.of(scope).filter(pk=node.pk).exists()
    if is_hidden and store is None:
        raise NotFoundError("There is no {kind} {id}.", kind="node", id=node_id)
    if store is None and node.store_id is None:
        _bind(node, scope)
    if store is not None and store.pk != node.store_id:
        # What was found in a store that may not be read any more does not come along.
        emptied: dict[str, Any] = {"data": {}} if is_hidden else {}
        models.RagNode.objects.filter(pk=node.pk).update(store=store, **emptied)
    with transaction.atomic():
        held = models.RagNode.objects.select_for_update(of=("self",)).select_related("store")
        node = held.get(pk=node.pk)
        node.data = _completed(node, data).as_wire()
        node.save(update_fields=["data", "updated_at"])
    return node


def find_rag_node(*, scope: Scope, node_id: str) -> models.RagNode:
    """Return the caller's own node; NotFoundError for none and for one of an unreadable store."""
    # No node has such an id, and Postgres takes no NUL.
    id_ = node_id.replace("\0", "\ufffd")
    found = models.RagNode.objects.of(scope).select_related("store").filter(node_id=id_).first()
    if found is None:
        raise NotFoundError("There is no {kind} {id}.", kind="node", id=node_id)
    return found


def serialize_rag_node(*, node: models.RagNode) -> dict[str, Any]:
    """Return the data with the present upload status of its store's files."""
    data, (status, error) = node.node_data, _upload_status(node)
    if status:
        data = replace(data, upload_status=status, upload_error=error)
    return data.as_wire()


def save_rag_node_results(*, node: models.RagNode, query: str, documents: Sequence[str]) -> None:
    """Keep what was asked last and found, beside what was saved since the run began."""
    with transaction.atomic():
        held = models.RagNode.objects.select_for_update().filter(pk=node.pk)
        for row in held:
            data = replace(row.node_data, search_query=query, found_documents=tuple(documents))
            held.update(data=data.as_wire())


def _completed(node: models.RagNode, data: RAGNodeData) -> RAGNodeData:
    """Return the data with its store, and with what the last run found unless it says so itself."""
    assert node.store is not None, "it was bound just now"
    kept, found = node.node_data, data.found_documents
    return replace(
        data,
        file_search_store_name=node.store.resource_name,
        file_search_store_id=node.store.display_name,
        search_query=data.search_query or kept.search_query,
        found_documents=kept.found_documents if found is None else found,
    )


def _bind(node: models.RagNode, scope: Scope) -> None:
    shown = f"store-{node.node_id[:8]}-{time.time_ns() // 1_000_000}"
    store = create_named_store(scope=scope, display_name=shown)
    # Of two who save at once one binds; the other's store is empty and goes.
    if not models.RagNode.objects.filter(pk=node.pk, store=None).update(store=store):
        delete_store(store=store)


def _upload_status(node: models.RagNode) -> tuple[str, str]:
    files = models.File.objects.filter(store=node.store_id).order_by()
    counts = dict(files.values_list("status").annotate(n=Count("pk")))
    status = next((told for state, told in _STATUSES if counts.get(state)), "")
    failed = files.filter(status=STATES.ERROR).order_by("-pk").values_list("error", flat=True)
    error = failed.first() if status == "error" else None
    return status, str(RAGError.from_dict(error)) if error else ""
