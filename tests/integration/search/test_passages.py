"""Parent and child: found by the small chunk, shown and cited with the passage around it."""

from __future__ import annotations

from typing import Any

import pytest

from rag import models
from rag.core.hits import Hit
from rag.core.types import RetrievalSettings
from rag.services.answers.citations import pin_hits
from rag.services.chunks.add import delete_chunks
from rag.services.files import set_chunks_enabled
from rag.services.search import postprocessing, retrieve
from tests.factories import StoreFactory, UserFactory
from tests.integration.chunk_desk import OPERATOR, watch_words
from tests.integration.index_desk import live, put, run_job

pytestmark = pytest.mark.django_db
TEXT = "\n\n".join(
    f"Part {n} says that pump{n} is serviced by team {n * 3}. 水泵{n}号每年检修一次，由第{n}组负责。"
    for n in range(60)
)


def stored(monkeypatch: pytest.MonkeyPatch, splitter: str) -> models.Store:
    store = StoreFactory(owner=UserFactory(), max_tokens_per_chunk=60, splitter=splitter)
    watch_words(store, monkeypatch)
    done = run_job(put(store, TEXT))
    assert done is not None and done.status == "completed"
    return store


def search(store: models.Store, query: str) -> tuple[Hit, ...]:
    settings = RetrievalSettings(mode="keyword", top_k=3)
    return retrieve(
        query=query, scope=OPERATOR, stores=[store], settings=settings, purpose="evaluation"
    ).hits


def test_a_small_chunk_is_shown_with_its_passage(monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(monkeypatch, "parent_child")
    hit = search(store, "pump31")[0]
    best = models.Chunk.objects.get(pk=hit.chunk_id)
    passage = models.Chunk.objects.live().filter(parent_start=best.parent_start)
    assert "pump31" in best.text and len(hit.text) > 2 * len(best.text)
    assert set(hit.chunk_ids) == set(passage.values_list("pk", flat=True))
    assert hit.text == TEXT[hit.char_start : hit.char_end]
    assert hit.char_start == best.parent_start
    assert [part.char_start for part in hit.parts] == sorted(p.char_start for p in hit.parts)
    # What an answer cites later is read from the pinned chunks, wherever in the passage it stands.
    assert pin_hits(hits=[hit], scope=OPERATOR)[0].text == hit.text
    # Two chunks of one passage are one hit.
    texts = [one.text for one in search(store, "pump31 pump32 team 93 96")]
    assert len(texts) == len(set(texts)) and "pump32" in texts[0] and "pump31" in texts[0]


def test_what_was_switched_off_or_deleted_parts_a_passage(monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(monkeypatch, "parent_child")
    (file,) = store.files.all()
    first, second, third, *_ = live(file)
    assert first.parent_start == second.parent_start == third.parent_start == 0
    hidden = second.text.split(" says")[0]
    set_chunks_enabled(scope=OPERATOR, chunk_ids=[second.pk], enabled=False)
    shown = search(store, "pump0")[0]
    assert hidden not in shown.text and shown.chunk_ids == (first.pk,)
    set_chunks_enabled(scope=OPERATOR, chunk_ids=[second.pk], enabled=True)
    assert hidden in search(store, "pump0")[0].text
    delete_chunks(scope=OPERATOR, chunk_ids=[second.pk], by=store.owner)
    assert hidden not in search(store, "pump0")[0].text


def test_passages_whose_chunks_are_all_found_leave_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = StoreFactory(owner=UserFactory(), max_tokens_per_chunk=50, splitter="parent_child")
    watch_words(store, monkeypatch)
    dense = " ".join(f"The valve is valve {n}, a valve of valves." for n in range(60))
    run_job(put(store, dense, name="dense.txt"))
    for n in range(2):
        run_job(put(store, f"A valve of the long-winded plant {n} in passing.", name=f"{n}.txt"))
    settings = RetrievalSettings(mode="keyword", top_k=5)
    result = retrieve(
        query="valve", scope=OPERATOR, stores=[store], settings=settings, purpose="evaluation"
    )
    assert {"0.txt", "1.txt"} <= {hit.file_name for hit in result.hits}


def test_other_templates_ask_the_database_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(postprocessing, "fetch_planned", lambda *given: asked.append(given) or [])
    store = stored(monkeypatch, "sentences")
    assert "pump31" in search(store, "pump31")[0].text
    assert not any("parent_start" in statement for statement, _ in asked)
