"""Labels of the admin that come from values: translated, none as in the code."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from rag.admin.ui import charts
from tests.edges.admin_client import client_of, page, words
from tests.factories import QueryLogFactory, StoreFactory, UserFactory


@pytest.mark.django_db
def test_how_a_query_was_searched_is_said_in_words() -> None:
    store, admin = StoreFactory(), UserFactory(is_superuser=True)
    for mode in ("hybrid", "semantic", "keyword", ""):
        row = QueryLogFactory(query=f"q {mode}", store_ids=[store.pk], mode=mode)
    listed = page(client_of(admin), "rag_querylog_changelist")
    found = re.findall(r'<td class="[^"]*field-mode_label[^"]*"[^>]*>([^<]*)<', listed)
    assert [one.strip() for one in found] == [
        "–",
        "full-text search",
        "vector search",
        "hybrid search",
    ]
    chinese = words(page(client_of(admin, "zh-CN"), "rag_querylog_changelist"))
    assert "混合检索" in chinese and "hybrid" not in chinese.replace("q hybrid", "")
    assert "–" in words(page(client_of(admin), "rag_querylog_change", row.pk))


def test_the_words_of_a_chart_are_few_enough_to_be_read_at_300_pixels() -> None:
    days = [f"11-{day:02}" for day in range(1, 15)]
    drawn = charts.bar_chart("Queries a day", [(day, 9.0) for day in days])
    assert drawn["width"] <= 320
    places = [mark["x"] for mark in drawn["marks"]]
    # A label of five characters is about 36 wide.
    assert min(b - a for a, b in pairwise(places)) >= 40
    assert [level["text"] for level in drawn["levels"]] == ["0", "5", "10"]
    assert all(0 <= bar["y"] <= drawn["base"] for bar in drawn["bars"])
