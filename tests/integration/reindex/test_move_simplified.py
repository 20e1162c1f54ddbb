"""A store of an older version: asked as it was filled, then moved to simplified vectors and words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rag import models
from rag.core.errors import ConfigurationError
from rag.services.operations.check_installation import check_simplified_form
from rag.services.operations.check_result import CheckResult
from rag.services.reindex.estimate import estimate_reindex
from rag.services.reindex.runs import start_reindex
from rag.services.reindex.worker import run_reindex
from rag.services.stores import create_store
from rag.services.wiring import registry as wiring
from rag.stages.text.simplified import EMBEDDED_FORM
from rag.stages.text.terms import VERSION, index_terms
from tests import factories
from tests.factories import FileFactory, SpaceFactory, StoreFactory, publish
from tests.fakes.words_embedder import WordsEmbedder
from tests.integration.move_world import OLD, OPERATOR, answer, start_move, two_models

__all__ = ["two_models"]
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("two_models")]
TEXTS = ("圖書館的開放時間是上午九時。", "請攜帶讀者證入場。", "The library opens at nine.")


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> models.Store:
    """Return a store as older versions filled it: vectors and words as they were written."""
    written = lambda text: index_terms(text, is_simplified=False)  # noqa: E731 - one line
    monkeypatch.setattr(factories, "index_terms", written)
    store = StoreFactory(space=SpaceFactory(model=OLD, dim=64, version="1"))
    publish(FileFactory(store=store), *TEXTS, gap=20)
    return store


def best(store: models.Store, query: str) -> str:
    found = answer(models.Store.objects.get(pk=store.pk), query)
    return models.Chunk.objects.get(pk=found[0][0]).text


def findings() -> list[CheckResult]:
    return list(check_simplified_form())


def test_a_store_of_an_older_version_is_asked_as_it_was_filled(older: models.Store) -> None:
    made = wiring.embedder_of(older.live_space_id).embed_query("圖書館")
    assert np.array_equal(made, WordsEmbedder(64).embed_query("圖書館"))
    assert best(older, "圖書館幾時開放？") == TEXTS[0]
    lexical = older.retrieval_settings.but(mode="keyword")
    models.Store.objects.filter(pk=older.pk).update(retrieval={"mode": lexical.mode})
    assert best(older, "讀者證") == TEXTS[1]


def test_a_space_that_nothing_makes_any_more_is_refused(older: models.Store) -> None:
    models.EmbeddingSpace.objects.filter(pk=older.space_id).update(version="0")
    with pytest.raises(ConfigurationError, match="now makes other vectors"):
        wiring.embedder_of(older.live_space_id)


def test_new_stores_begin_in_simplified_form() -> None:
    store = create_store(name="new")
    assert store.space.version == f"1/{EMBEDDED_FORM}"
    assert store.terms_version == VERSION
    made = wiring.embedder_of(store.live_space_id)
    assert np.array_equal(made.embed_query("圖書館"), WordsEmbedder(64).embed_query("图书馆"))
    assert np.array_equal(
        made.embed_passages(["圖書館", "図書館は駅の前"]),
        WordsEmbedder(64).embed_passages(["图书馆", "図書館は駅の前"]),
    )


def test_an_older_store_moves_behind_the_gate(older: models.Store) -> None:
    assert [one.level for one in findings()] == ["note", "note"]
    old = older.space_id
    run = start_move(older, model=OLD)
    assert run.target is not None and run.target.version == f"1/{EMBEDDED_FORM}"
    run_reindex(run_id=run.pk)
    run.refresh_from_db()
    # Nothing shows yet that it is as good.
    assert run.state == "refused"
    assert run.report["reasons"] == ["no golden questions and no folder to compare on"]
    older.refresh_from_db()
    assert older.space_id == old


def test_what_is_found_in_either_form_once_it_has_moved(older: models.Store) -> None:
    run_reindex(run_id=start_move(older, model=OLD, is_forced=True).pk)
    words, _ = start_reindex(scope=OPERATOR, store=older, what="lexical")
    run_reindex(run_id=words.pk)
    older.refresh_from_db()
    assert older.space.version == f"1/{EMBEDDED_FORM}"
    assert findings() == []
    for mode in ("hybrid", "semantic", "keyword"):
        models.Store.objects.filter(pk=older.pk).update(retrieval={"mode": mode})
        for question in ("圖書館幾時開放？", "图书馆几时开放？"):
            assert best(older, question) == TEXTS[0], (mode, question)
    assert list(models.Chunk.objects.order_by("pk").values_list("text", flat=True)) == list(TEXTS)


def test_vectors_made_anew_stay_in_the_space_that_serves(older: models.Store) -> None:
    run, _ = start_reindex(scope=OPERATOR, store=older, what="embeddings")
    assert run.target is None
    run_reindex(run_id=run.pk)
    run.refresh_from_db()
    assert run.state == "done"
    assert best(older, "圖書館幾時開放？") == TEXTS[0]


def test_an_estimate_tells_the_disk_of_a_move_to_the_same_model(older: models.Store) -> None:
    here = estimate_reindex(store=older, what="embeddings")
    moved = estimate_reindex(store=older, what="embeddings", model=OLD)
    assert (here.disk_bytes, moved.disk_bytes > 0) == (0, True)


def test_the_gate_compares_both_spaces_on_a_folder(older: models.Store, tmp_path: Any) -> None:
    (tmp_path / "corpus.jsonl").write_text(
        "".join(
            f'{{"_id": "{at}", "text": "{text}"}}\n'
            for at, text in enumerate((*TEXTS, "停車場在地下一層。"))
        ),
        encoding="utf-8",
    )
    (tmp_path / "queries.jsonl").write_text(
        '{"_id": "q", "text": "停车场在哪里？"}\n', encoding="utf-8"
    )
    (tmp_path / "qrels.tsv").write_text("q\t3\t1\n", encoding="utf-8")
    run = start_move(older, model=OLD, data=str(tmp_path))
    run_reindex(run_id=run.pk)
    run.refresh_from_db()
    assert run.state == "swapped", run.error
    names = models.Store.objects.filter(name__startswith="eval").values_list("name", flat=True)
    assert len(names) == 2
