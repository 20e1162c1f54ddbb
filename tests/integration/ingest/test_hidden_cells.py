"""Hidden cells of spreadsheets: a store's setting says whether they are read."""

from __future__ import annotations

from typing import Any

import pytest

from rag import models
from rag.services.stores import update_store
from tests.factories import StoreFactory, UserFactory
from tests.integration.chunk_desk import OPERATOR, watch_words
from tests.integration.index_desk import put, run_job
from tests.workbooks import SheetSpec, workbook_file

pytestmark = pytest.mark.django_db


def read(file: models.File) -> models.File:
    done = run_job(file)
    assert done is not None and done.status == "completed", done
    return models.File.objects.get(pk=done.pk)


def test_a_store_takes_in_what_is_hidden_where_it_is_asked_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store: Any = StoreFactory(owner=UserFactory())
    watch_words(store, monkeypatch)
    rows = [["item", "price"], ["pump", 10], ["spare", 11]]
    data = workbook_file(SheetSpec("Prices", rows, hidden_rows=[3]))
    file = put(store, data, name="prices.xlsx")
    done = read(file)
    assert "spare" not in done.canonical_text
    assert [notice["params"]["rows"] for notice in done.warnings] == ["1"]
    update_store(scope=OPERATOR, store=store, values={"reads_hidden_cells": True})
    done = read(file)
    assert "| spare [hidden] | 11 |" in done.canonical_text
    assert done.warnings == []
