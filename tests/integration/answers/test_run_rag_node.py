"""A node run by the seed's rules: modes, queries, files of three slots, outputs; nodes kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.db import connections

from rag import models
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import ForbiddenError, InvalidInputError, NotFoundError, RAGError
from rag.core.rag_node import RAGNodeData
from rag.services.access.api_keys import scope_of
from rag.services.answers.rag_node import (
    RagNodeRequest,
    find_rag_node,
    run_rag_node,
    save_rag_node,
    save_rag_node_results,
    serialize_rag_node,
)
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, StoreFactory, UserFactory, publish
from tests.fakes.loopback import LoopbackServer, Reply

pytestmark = pytest.mark.django_db
WARRANTY = "The warranty lasts two years. It covers parts and labour."
COLOUR = "The lamp is painted blue."
QUESTION = "How long does the warranty last?"


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)
    settings.RAG = {**settings.RAG, "FETCH_HOSTS": ("127.0.0.1",)}


@pytest.fixture
def scope() -> Scope:
    return scope_of(UserFactory())


@pytest.fixture
def store(scope: Scope) -> models.Store:
    store = StoreFactory(owner_id=scope.user_id)
    publish(FileFactory(store=store, name="手册.pdf"), WARRANTY)
    return store


@pytest.fixture
def web() -> Iterator[LoopbackServer]:
    with LoopbackServer() as server:
        for name, text in (("a", WARRANTY), ("b", COLOUR)):
            server.route("GET", f"/{name}.txt", lambda call, text=text: Reply(text.encode()))
        yield server


def node(store: models.Store | None = None, **wire: Any) -> RAGNodeData:
    name = {"fileSearchStoreName": store.resource_name} if store else {}
    return RAGNodeData.from_wire({**name, **wire})


def run(data: RAGNodeData, scope: Scope, context: Any = None, **mock: Any) -> dict[str, Any]:
    """Return what a run gives, or the sentence of its error."""
    asked = RagNodeRequest(data, context or {}, mock)
    try:
        return run_rag_node(run=asked, scope=scope, deadline=Deadline(60))
    except RAGError as error:
        return {"error": str(error)}


def test_static_mode_answers_from_the_store(store: models.Store, scope: Scope) -> None:
    output = run(node(store, fileMode="static", inputMappings={"query": QUESTION}), scope)
    assert output["query"] == QUESTION and output["mode"] == "fileSearch"
    assert output["documents"] == [WARRANTY] and output["documentCount"] == 1
    assert output["citations"] == [{"source": "手册.pdf", "chunk": WARRANTY}]
    assert "warnings" not in output


def test_the_debug_query_wins_over_the_template_and_that_over_the_context(
    store: models.Store, scope: Scope
) -> None:
    context = {
        "n1": {"user_input": "from the context"},
        "_meta": {"nodeLabels": {"n1": "用户输入"}},
    }
    mapped = node(store, inputMappings={"query": "about {{用户输入.user_input}}!"})
    assert run(mapped, scope, context, query=" debug ")["query"] == "debug"
    assert run(mapped, scope, context, query="  ")["query"] == "about from the context!"
    assert run(mapped, scope, context, query=5)["query"] == "about from the context!"
    assert run(node(store), scope, context)["query"] == "from the context"


def test_a_reference_that_finds_nothing_is_empty_and_told(
    store: models.Store, scope: Scope
) -> None:
    data = node(store, inputMappings={"query": "warranty {{gone.x}}", "files": "{{gone.files}}"})
    output = run(data, scope)
    assert output["query"] == "warranty"
    assert output["warnings"] == [
        "“gone.x” was found in no earlier node.",
        "“gone.files” was found in no earlier node.",
    ]


@pytest.mark.parametrize("template", ["{{gone.x}}", "   ", ""])
def test_an_empty_query_is_an_error(store: models.Store, scope: Scope, template: str) -> None:
    assert run(node(store, inputMappings={"query": template}), scope) == {
        "error": "查询内容不能为空"
    }


def test_no_store_is_an_error_and_so_is_a_foreign_one(scope: Scope) -> None:
    assert run(node(), scope, query="x") == {"error": "未指定 FileSearchStore"}
    foreign = StoreFactory(owner=UserFactory())
    output = run(node(foreign), scope, query="x")
    assert set(output) == {"error"} and "There is no store" in output["error"]
    with pytest.raises(NotFoundError):
        asked = RagNodeRequest(node(foreign), mock_data={"query": "x"})
        run_rag_node(run=asked, scope=scope, deadline=Deadline(60))


def test_files_of_all_slots_are_merged_in_order_and_single_ones_wrapped(
    store: models.Store, scope: Scope, web: LoopbackServer
) -> None:
    context = {
        "in": {"files": [{"name": "b", "url": f"{web.origin}/b.txt"}, {"url": ""}, "no"]},
        "api": {"file": {"name": "a", "url": f"{web.origin}/a.txt"}},
    }
    data = node(
        store, inputMappings={"files": "{{api.file}}", "files3": "{{in.files}}", "query": QUESTION}
    )
    output = run(data, scope, context)
    assert output["mode"] == "multimodal" and output["documentCount"] == 1
    assert output["citations"][0] == {"source": "a", "chunk": "The warranty lasts two years."}
    assert sorted(call.path for call in web.calls) == ["/a.txt", "/b.txt"]


@pytest.mark.parametrize(
    ("file_mode", "has_files", "mode"),
    [
        ("variable", True, "multimodal"),
        ("static", True, "fileSearch"),
        ("static", False, "fileSearch"),
        (None, True, "multimodal"),
        (None, False, "fileSearch"),
    ],
)
def test_the_mode_is_the_chosen_one_else_by_the_files(
    store: models.Store,
    scope: Scope,
    web: LoopbackServer,
    file_mode: str | None,
    has_files: bool,
    mode: str,
) -> None:
    context = {"in": {"files": [{"url": f"{web.origin}/a.txt"}] if has_files else []}}
    data = node(
        store,
        fileMode=file_mode,
        inputMappings={"files": "{{in.files}}", "query": "warranty years"},
    )
    assert run(data, scope, context)["mode"] == mode
    assert bool(web.calls) == (mode == "multimodal")


def test_variable_mode_without_a_file_is_an_error(store: models.Store, scope: Scope) -> None:
    for files in ([], "text", [{"name": "no url"}], None):
        output = run(
            node(store, fileMode="variable", inputMappings={"files": "{{in.files}}"}),
            scope,
            {"in": {"files": files}},
            query="x",
        )
        assert "there is none with an url" in output["error"]


def test_a_value_is_never_evaluated(store: models.Store, scope: Scope) -> None:
    context = {"in": {"text": "{{secret.key}} ${7*7} {% now %}"}, "secret": {"key": "s3cret"}}
    output = run(node(store, inputMappings={"query": "{{in.text}}"}), scope, context)
    assert output["query"] == "{{secret.key}} ${7*7} {% now %}"


def test_a_large_file_is_ranked_in_memory(scope: Scope, web: LoopbackServer) -> None:
    filler = "".join(f"Paragraph {n} speaks of the weather in town {n}.\n\n" for n in range(3000))
    web.route(
        "GET", "/long.txt", lambda call: Reply((filler + WARRANTY + "\n\n" + filler).encode())
    )
    context = {"in": {"files": {"name": "long.txt", "url": f"{web.origin}/long.txt"}}}
    data = node(inputMappings={"files": "{{in.files}}", "query": QUESTION})
    output = run(data, scope, context)
    assert output["citations"][0] == {
        "source": "long.txt",
        "chunk": "The warranty lasts two years.",
    }


def test_a_node_without_a_store_gets_one_and_keeps_it(scope: Scope) -> None:
    saved = save_rag_node(scope=scope, node_id="node-1234567890", data=node(label="检索"))
    store = saved.store
    assert store is not None and store.owner_id == scope.user_id
    wire = serialize_rag_node(node=saved)
    assert wire["fileSearchStoreName"] == store.resource_name
    head, stamp = wire["fileSearchStoreId"].rsplit("-", 1)
    assert head == "store-node-123" and stamp.isdigit() and len(stamp) == 13
    again = save_rag_node(scope=scope, node_id="node-1234567890", data=node(label="新"))
    assert again.pk == saved.pk and again.store_id == saved.store_id
    assert models.Store.objects.count() == 1
    assert serialize_rag_node(node=again)["label"] == "新"


def test_the_installation_s_backend_is_where_it_is_made(scope: Scope, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "DEFAULT_STORE_BACKEND": "elsewhere"}
    from rag.core.errors import ConfigurationError

    with pytest.raises(ConfigurationError, match="RAG_DEFAULT_STORE_BACKEND is “elsewhere”"):
        save_rag_node(scope=scope, node_id="n", data=node())


def test_a_node_is_its_owner_s_and_ids_of_others_do_no_harm(
    scope: Scope, store: models.Store
) -> None:
    mine = save_rag_node(scope=scope, node_id="same", data=node(store))
    other = scope_of(UserFactory())
    with pytest.raises(NotFoundError):
        find_rag_node(scope=other, node_id="same")
    with pytest.raises(NotFoundError):
        save_rag_node(scope=other, node_id="same", data=node(store))
    theirs = save_rag_node(scope=other, node_id="same", data=node())
    assert theirs.pk != mine.pk and find_rag_node(scope=scope, node_id="same").pk == mine.pk
    with pytest.raises(ForbiddenError):
        save_rag_node(scope=Scope.anonymous(), node_id="x", data=node())
    for wrong in ("", " ", "x" * 201, "a\0b"):
        with pytest.raises(InvalidInputError):
            save_rag_node(scope=scope, node_id=wrong, data=node(store))


def test_another_store_may_be_named_and_results_stay(scope: Scope, store: models.Store) -> None:
    saved = save_rag_node(scope=scope, node_id="n", data=node())
    save_rag_node_results(node=saved, query="asked", documents=["found"])
    moved = save_rag_node(scope=scope, node_id="n", data=node(store))
    wire = serialize_rag_node(node=moved)
    assert wire["fileSearchStoreName"] == store.resource_name
    assert (wire["searchQuery"], wire["foundDocuments"]) == ("asked", ["found"])


def test_a_node_goes_with_the_right_to_read_its_store(scope: Scope, store: models.Store) -> None:
    saved = save_rag_node(scope=scope, node_id="n", data=node(store))
    save_rag_node_results(node=saved, query="asked", documents=["found"])
    allowed = StoreFactory(owner_id=scope.user_id)
    limited = replace(scope, only_store_ids=frozenset({allowed.pk}))
    with pytest.raises(NotFoundError):
        find_rag_node(scope=limited, node_id="n")
    with pytest.raises(NotFoundError):
        save_rag_node(scope=limited, node_id="n", data=node())
    moved = save_rag_node(scope=limited, node_id="n", data=node(allowed))
    wire = serialize_rag_node(node=moved)
    assert wire["fileSearchStoreName"] == allowed.resource_name
    assert "found" not in str(wire) and "searchQuery" not in wire


def test_an_id_that_the_database_cannot_hold_is_that_of_no_node(scope: Scope) -> None:
    with pytest.raises(NotFoundError):
        find_rag_node(scope=scope, node_id="a\0b")


def test_the_upload_status_is_that_of_the_store_s_files(scope: Scope) -> None:
    saved = save_rag_node(scope=scope, node_id="n", data=node())
    assert serialize_rag_node(node=saved)["uploadStatus"] == "idle"
    states = models.File.Status
    file = FileFactory(store=saved.store, status=states.COMPLETED)
    assert serialize_rag_node(node=saved)["uploadStatus"] == "completed"
    busy = FileFactory(store=saved.store, status=states.PROCESSING)
    assert serialize_rag_node(node=saved)["uploadStatus"] == "processing"
    models.File.objects.filter(pk=busy.pk).update(status=states.UPLOADING)
    assert serialize_rag_node(node=saved)["uploadStatus"] == "uploading"
    error = {"message": "“{name}” is broken.", "hint": "", "params": {"name": "x"}}
    models.File.objects.filter(pk=file.pk).update(status=states.ERROR, error=error)
    wire = serialize_rag_node(node=saved)
    assert (wire["uploadStatus"], wire["uploadError"]) == ("error", "“x” is broken.")


@pytest.mark.django_db(transaction=True)
def test_two_who_save_at_once_bind_one_store() -> None:
    scope = scope_of(UserFactory())
    stores: list[int | None] = []

    def save() -> None:
        try:
            stores.append(save_rag_node(scope=scope, node_id="n", data=node()).store_id)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=save) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores) == 4 and len(set(stores)) == 1
    assert models.Store.objects.count() == 1 and models.RagNode.objects.count() == 1


def test_what_a_run_found_does_not_undo_what_was_saved_meanwhile(
    store: models.Store, scope: Scope
) -> None:
    save_rag_node(scope=scope, node_id="n", data=node(store, label="before", fileMode="static"))
    running = find_rag_node(scope=scope, node_id="n")
    save_rag_node(scope=scope, node_id="n", data=node(store, label="after", maxTokensPerChunk=300))
    save_rag_node_results(node=running, query=QUESTION, documents=[WARRANTY])
    kept = serialize_rag_node(node=find_rag_node(scope=scope, node_id="n"))
    assert (kept["label"], kept["maxTokensPerChunk"]) == ("after", 300)
    assert (kept["searchQuery"], kept["foundDocuments"]) == (QUESTION, [WARRANTY])
    find_rag_node(scope=scope, node_id="n").delete()
    save_rag_node_results(node=running, query=QUESTION, documents=[WARRANTY])
    assert not models.RagNode.objects.exists()
