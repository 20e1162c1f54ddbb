"""Pictures of graphs: every box and arrow is there, nothing in a name becomes markup."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.draw_graph import GraphEdge, GraphNode, draw_graph

SVG = "{http://www.w3.org/2000/svg}"
Box = tuple[float, float, float, float]


def boxes(svg: str) -> list[Box]:
    rects = ET.fromstring(svg).iter(f"{SVG}rect")
    return [tuple(float(one.attrib[n]) for n in ("x", "y", "width", "height")) for one in rects]  # type: ignore[misc]


def classes(svg: str, name: str) -> list[str]:
    return [one.attrib.get("class", "") for one in ET.fromstring(svg).iter(f"{SVG}{name}")]


def test_a_chain_runs_from_top_to_bottom() -> None:
    nodes = [GraphNode(name) for name in ("a", "b", "c")]
    svg = draw_graph(nodes, [GraphEdge("a", "b"), GraphEdge("b", "c")], "chain")
    tops = [box[1] for box in boxes(svg)]
    assert tops == sorted(tops) and len(set(tops)) == 3
    assert ET.fromstring(svg).attrib["aria-label"] == "chain"


def test_what_is_side_by_side_shares_a_layer_and_a_cycle_ends() -> None:
    nodes = [GraphNode(name) for name in "abcd"]
    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "a")]
    found = boxes(draw_graph(nodes, [GraphEdge(*edge) for edge in edges]))
    assert found[1][1] == found[2][1]
    assert found[0][1] < found[1][1] < found[3][1]


def test_a_long_arrow_passes_beside_the_boxes_between() -> None:
    nodes = [GraphNode(name) for name in "abc"]
    edges = [GraphEdge("a", "b"), GraphEdge("b", "c"), GraphEdge("a", "c", "default")]
    svg = draw_graph(nodes, edges)
    x, _, width, _ = boxes(svg)[1]
    (line,) = [
        one.attrib["d"]
        for one in ET.fromstring(svg).iter(f"{SVG}path")
        if "graph-choice" in one.attrib.get("class", "")
    ]
    passed = float(line.partition("L")[2].split()[0])
    assert passed < x or passed > x + width


def label_boxes(svg: str) -> list[Box]:
    """Return about where the words of arrows stand: left, top, width and height."""
    found = []
    for one in ET.fromstring(svg).iter(f"{SVG}text"):
        if one.attrib.get("class") == "graph-label":
            wide = len(one.text or "") * 6.4
            x, y = float(one.attrib["x"]), float(one.attrib["y"])
            found.append((x - wide / 2, y - 11, wide, 13.0))
    return found


def meet(one: Box, other: Box) -> bool:
    (x1, y1, w1, h1), (x2, y2, w2, h2) = one, other
    return x1 < x2 + w2 and x2 < x1 + w1 and y1 < y2 + h2 and y2 < y1 + h1


SAFETY = (
    ("START", "judge", ""),
    ("judge", "review", 'risk == "high"'),
    ("judge", "look_up", "default"),
    ("review", "look_up", 'review_decision == "answer"'),
    ("review", "END", "default"),
    ("look_up", "answer", ""),
    ("answer", "END", ""),
)
FAN = tuple(("judge", f"n{n}", f'intent == "{"wide" * 5}{n}"') for n in range(4))


@pytest.mark.parametrize(
    "edges",
    [
        SAFETY,
        FAN,
        (*FAN, *((f"n{n}", "END", f"score > 0.{n}") for n in range(4)), ("END", "judge", "again")),
    ],
)
def test_the_words_of_arrows_cover_neither_each_other_nor_a_box(edges: Any) -> None:
    names = dict.fromkeys(name for source, target, _ in edges for name in (source, target))
    svg = draw_graph([GraphNode(name) for name in names], [GraphEdge(*edge) for edge in edges])
    labels = label_boxes(svg)
    assert len(labels) == sum(bool(label) for _, _, label in edges)
    assert not any(meet(a, b) for a, b in combinations(labels, 2))
    assert not any(meet(label, box) for label in labels for box in boxes(svg))
    width = float(ET.fromstring(svg).attrib["width"])
    assert all(x >= 0 and x + wide <= width for x, _, wide, _ in labels)
    # Nothing is drawn over them.
    assert svg.rindex("<path") < svg.rindex("<rect") < svg.index('class="graph-label"')


def test_states_taken_edges_and_kinds_are_marked() -> None:
    nodes = [GraphNode("a", "agent", "done"), GraphNode("b", "rag", "failed"), GraphNode("c")]
    edges = [GraphEdge("a", "b", "x == 1", is_taken=True), GraphEdge("a", "c")]
    svg = draw_graph(nodes, edges)
    assert [one for one in classes(svg, "g") if "graph-node" in one] == [
        "graph-node graph-done",
        "graph-node graph-failed",
        "graph-node graph-plain",
    ]
    assert "graph-edge graph-choice graph-taken" in classes(svg, "path")
    assert "agent" in svg and "x == 1" in svg


def test_edges_to_nowhere_are_left_out_and_nothing_is_a_picture_too() -> None:
    assert "graph-edge" not in draw_graph([GraphNode("a")], [GraphEdge("a", "b")])
    assert boxes(draw_graph([], [])) == []


def test_names_and_conditions_never_become_markup() -> None:
    evil = '<script>alert("x")</script>'
    svg = draw_graph(
        [GraphNode(evil, evil, evil), GraphNode("b")], [GraphEdge(evil, "b", evil)], evil
    )
    assert "<script" not in svg
    assert any(one.text == evil for one in ET.fromstring(svg).iter(f"{SVG}title"))


@given(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=24))
def test_no_two_boxes_of_any_graph_overlap(pairs: set[tuple[int, int]]) -> None:
    nodes = [GraphNode(f"node {number}") for number in range(8)]
    edges = [GraphEdge(f"node {a}", f"node {b}", "?" if a % 2 else "") for a, b in sorted(pairs)]
    found = boxes(draw_graph(nodes, edges))
    assert len(found) == 8
    for (x1, y1, w1, _), (x2, y2, w2, _) in combinations(found, 2):
        assert y1 != y2 or x1 + w1 <= x2 or x2 + w2 <= x1
