"""A node's data on the wire and typed: defaults, ranges, unknown keys, files, modes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag.core.documents import ChunkRule
from rag.core.errors import InvalidInputError, RAGError, UnknownNameError
from rag.core.rag_node import FileRef, InputMappings, RAGNodeData, pick_mode, valid_files

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
NAMES = [
    "label",
    "fileMode",
    "files",
    "files2",
    "fileSearchStoreName",
    "maxTokensPerChunk",
    "uploadStatus",
    "foundDocuments",
    "inputMappings",
    "other",
]


def test_an_empty_node_has_the_defaults() -> None:
    data = RAGNodeData.from_wire({})
    assert (data.label, data.file_mode, data.upload_status) == ("RAG", "", "idle")
    assert data.chunk_rule == ChunkRule(200, 20)
    assert (data.files, data.files2, data.files3) == ((), (), ())
    assert data.as_wire() == {
        "label": "RAG",
        "files": [],
        "files2": [],
        "files3": [],
        "maxTokensPerChunk": 200,
        "maxOverlapTokens": 20,
        "uploadStatus": "idle",
    }


def test_all_keys_of_the_client_are_read_and_written_as_they_came() -> None:
    wire = {
        "label": "检索",
        "fileMode": "static",
        "files": [{"name": "a.pdf"}],
        "files2": [],
        "files3": [],
        "fileSearchStoreName": "fileSearchStores/x",
        "fileSearchStoreId": "store-a-1",
        "maxTokensPerChunk": 500,
        "maxOverlapTokens": 100,
        "uploadStatus": "error",
        "uploadError": "网络",
        "searchQuery": "什么是 RAG？",
        "foundDocuments": ["a", "b"],
        "inputMappings": {"query": "{{a.b}}", "files2": "{{c.files}}", "own": 1},
        "position": {"x": 1},
    }
    data = RAGNodeData.from_wire(wire)
    assert data.input_mappings == InputMappings(
        query="{{a.b}}", files2="{{c.files}}", extra={"own": 1}
    )
    assert data.extra == {"position": {"x": 1}}
    assert data.found_documents == ("a", "b")
    assert data.as_wire() == wire
    assert RAGNodeData.from_wire(json.loads(json.dumps(data.as_wire()))) == data


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("maxTokensPerChunk", 49),
        ("maxTokensPerChunk", 501),
        ("maxTokensPerChunk", 1.5),
        ("maxTokensPerChunk", True),
        ("maxTokensPerChunk", "200"),
        ("maxOverlapTokens", -1),
        ("maxOverlapTokens", 101),
        ("label", 5),
        ("files", "a.pdf"),
        ("files", {"url": "x"}),
        ("foundDocuments", [1]),
        ("inputMappings", []),
        ("inputMappings", {"query": 5}),
    ],
)
def test_a_value_of_another_type_or_range_is_refused(key: str, value: Any) -> None:
    with pytest.raises(InvalidInputError):
        RAGNodeData.from_wire({key: value})


@pytest.mark.parametrize(("key", "value"), [("fileMode", "both"), ("uploadStatus", "done")])
def test_an_unknown_word_lists_the_known_ones(key: str, value: str) -> None:
    with pytest.raises(UnknownNameError, match="Known:"):
        RAGNodeData.from_wire({key: value})


def test_null_and_whole_floats_are_taken() -> None:
    wire = {"fileMode": None, "files": None, "maxTokensPerChunk": 300.0, "inputMappings": None}
    data = RAGNodeData.from_wire(wire)
    assert (data.file_mode, data.files, data.max_tokens_per_chunk) == ("", (), 300)


@given(st.dictionaries(st.sampled_from(NAMES), JSON))
@example({"label": ""})
def test_any_json_is_read_or_refused_and_comes_back_the_same(wire: dict[str, Any]) -> None:
    try:
        data = RAGNodeData.from_wire(wire)
    except RAGError as error:
        assert str(error)
        return
    assert RAGNodeData.from_wire(data.as_wire()) == data


@pytest.mark.parametrize("value", ["text", 5, None, [], {}, [{"url": ""}], [{"url": 5}], [None, 3]])
def test_what_has_no_url_is_no_file(value: Any) -> None:
    assert valid_files(value) == ()


def test_single_files_are_wrapped_and_names_default() -> None:
    assert valid_files({"url": " http://x/a "}) == (FileRef("unknown", "http://x/a"),)
    assert valid_files([{"name": "a", "url": "u", "type": "text/plain", "size": 3}, "no", {}]) == (
        FileRef("a", "u", "text/plain"),
    )


@given(JSON)
def test_files_of_any_value_have_an_url(value: Any) -> None:
    for file in valid_files(value):
        assert file.url.strip() and isinstance(file.name, str) and isinstance(file.type, str)


@pytest.mark.parametrize(
    ("file_mode", "n_files", "mode"),
    [
        ("variable", 1, "multimodal"),
        ("static", 0, "fileSearch"),
        ("static", 3, "fileSearch"),
        ("", 0, "fileSearch"),
        ("", 2, "multimodal"),
    ],
)
def test_the_explicit_mode_wins_and_files_decide_without_one(
    file_mode: str, n_files: int, mode: str
) -> None:
    assert pick_mode(file_mode, n_files) == mode


def test_files_of_earlier_nodes_that_are_none_are_an_error() -> None:
    with pytest.raises(InvalidInputError, match="there is none with an url"):
        pick_mode("variable", 0)
