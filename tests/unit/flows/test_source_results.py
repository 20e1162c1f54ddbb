"""Rows of databases have columns of any name: those that results use too break no prompt."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.flows.definition.source_results import (
    dependent_values,
    format_results,
    shape_results,
)
from rag.core.hits import Hit
from tests.unit.flows.nodes.test_node_agent import ask
from tests.unit.node_world import NotedRun

ANYTHING = st.none() | st.text(max_size=5) | st.integers() | st.lists(st.integers(), max_size=2)
ROWS = st.fixed_dictionaries(
    {"content": st.text(max_size=9)},
    optional=dict.fromkeys(
        ("metadata", "source", "heading_path", "page_first", "score", "chunk_id"), ANYTHING
    ),
)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"content": "Filter", "metadata": "yellow"}, "Filter"),
        ({"content": "Filter", "metadata": ["a"]}, "Filter"),
        ({"content": "Filter", "heading_path": "Parts"}, "Filter"),
        ({"content": "Filter", "heading_path": [1, "b"]}, "1 > b\nFilter"),
        ({"content": "Filter", "source": 7, "score": "high"}, "Filter"),
        ({"content": "Filter", "metadata": {"source": "a.pdf", "page": 3}}, "a.pdf, p. 3\nFilter"),
    ],
)
def test_a_row_with_such_columns_is_its_content(row: dict[str, Any], text: str) -> None:
    assert format_results({"parts": [row]}, 100, len) == f"## parts\n\n[1] {text}"


@given(st.lists(ROWS, max_size=3))
def test_no_row_breaks_a_prompt(rows: list[dict[str, Any]]) -> None:
    told = format_results({"parts": rows}, 10_000, len)
    assert told.count("[") >= len(rows) if rows else told == ""


def test_models_that_quote_are_given_rows_by_their_numbers() -> None:
    run = NotedRun('{"response_content": "x"}')
    rows = [
        {"content": "Filter", "metadata": "yellow"},
        {"content": "Pump", "metadata": {"source": "a.pdf"}},
    ]
    ask(run, {"rag_results": {"parts": rows}})
    (_, request) = run.requests[0]
    assert request.passages == [("doc_01", "Filter"), ("doc_02", "Pump")]


def row(text: str, data: dict[str, Any], **more: Any) -> Hit:
    return Hit(text=text, rank=1, data=data, file_name="crm", source="database", **more)


PLAIN = row("name: Acme\ncity: Berlin", {"name": "Acme", "city": "Berlin"})
CHOSEN = row("Pays late.", {"note": "Pays late.", "name": "Acme"}, score=0.5)
TOLD = row("Leave is 15 days.", {"answer": "15 days.", "model": "m"}, page_first=4)


@pytest.mark.parametrize(
    ("hit", "result"),
    [
        (PLAIN, {"name": "Acme", "city": "Berlin"}),
        (row("city: Berlin", {"name": None, "city": "Berlin"}), {"name": None, "city": "Berlin"}),
        (
            CHOSEN,
            {
                "note": "Pays late.",
                "name": "Acme",
                "content": "Pays late.",
                "score": 0.5,
                "metadata": {"source": "crm", "section": "", "document_id": ""},
            },
        ),
        (
            TOLD,
            {
                "answer": "15 days.",
                "model": "m",
                "content": "Leave is 15 days.",
                "score": None,
                "metadata": {"source": "crm", "page": 4, "section": "", "document_id": ""},
            },
        ),
    ],
)
def test_what_was_chosen_as_content_stays_beside_the_row(hit: Hit, result: dict[str, Any]) -> None:
    assert shape_results([hit], "structured") == [result]


@pytest.mark.parametrize("result_format", ["structured", "raw"])
@pytest.mark.parametrize("hit", [PLAIN, CHOSEN])
def test_a_dependent_source_names_fields_alike_in_every_format(
    hit: Hit, result_format: str
) -> None:
    results = shape_results([hit], result_format)
    values = dependent_values("crm", results, [hit])
    assert (values["crm__name"], values["crm__all__name"]) == ("Acme", ["Acme"])
    assert values["crm"] == results
    chunk = Hit(text="x", rank=1, chunk_id=5, revision=1, file_id=7, file_name="a.pdf")
    found = dependent_values("kb", shape_results([chunk], result_format), [chunk])
    assert (found["kb__document_id"], found["kb__content"]) == ("7", "x")
