"""The hybrid statement on a real server: scores, filters, access, collisions, fusion."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, transaction

from rag import models
from rag.core.errors import ConflictError
from rag.providers.postgres.lexical import bm25 as keys
from rag.providers.postgres.lexical import statistics as stats
from rag.providers.postgres.search.index import PostgresIndex
from rag.stages.text.terms import index_terms, query_terms
from tests.integration.index_world import (
    index_query,
    make_file,
    make_space,
    make_store,
    publish,
    target_of,
    unit,
)

pytestmark = pytest.mark.django_db

TEXTS = [
    "The pump runs at 40 bar and stops at 60 bar.",
    "Replace the filter HX-4471-B every 200 hours.",
    "图书馆的设备每天早上八点开放。",
    "长江大桥的维护手册，水泵压力为四十巴。",
    "pump pump pump filter",
]
VECTORS = [unit(1), unit(0, 1), unit(0, 0, 1), unit(1, 0.2), unit(0.5, 0.5)]


@pytest.fixture
def store() -> models.Store:
    store = make_store(make_space())
    publish(make_file(store), TEXTS, VECTORS)
    store.refresh_from_db()
    return store


def find(query: Any) -> list[Any]:
    return PostgresIndex().search(query)[0]


def plain_bm25(query: str, texts: list[str], avg_len: float) -> list[float]:
    """The textbook formula, Lucene's idf, weights of the query's terms."""
    counts = [index_terms(text) for text in texts]
    n = len(texts)
    scores = []
    for count in counts:
        length, score = sum(count.values()), 0.0
        for term, weight in query_terms(query).items():
            df = sum(term in other for other in counts)
            if tf := count.get(term, 0):
                idf = math.log(1 + (n - df + 0.5) / (df + 0.5))
                norm = keys.K1 * (1 - keys.B + keys.B * length / avg_len)
                score += weight * idf * tf * (keys.K1 + 1) / (tf + norm)
        scores.append(score)
    return scores


@pytest.mark.parametrize(
    "query", ["pump", "pump filter 40 bar", "水泵的压力", "HX-4471-B", "大桥 pump"]
)
def test_bm25_is_the_textbook_formula(store: models.Store, query: str) -> None:
    expected = plain_bm25(query, TEXTS, store.avg_len_frozen)
    hits = find(index_query([store], query))
    assert {TEXTS.index(hit.text): hit.score for hit in hits} == pytest.approx(
        {i: score for i, score in enumerate(expected) if score > 0}, rel=1e-3
    )
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_vectors_alone_give_the_cosine(store: models.Store) -> None:
    hits = find(index_query([store], vector=unit(1), top_k=3))
    assert [hit.text for hit in hits] == [TEXTS[0], TEXTS[3], TEXTS[4]]
    assert hits[0].score == pytest.approx(1.0, abs=1e-3)
    assert hits[1].vector.score == pytest.approx(float(unit(1) @ unit(1, 0.2)), abs=1e-3)
    assert [hit.vector.rank for hit in hits] == [1, 2, 3]


def test_a_hit_explains_both_legs(store: models.Store) -> None:
    hit = find(index_query([store], "filter HX-4471-B", unit(0, 1)))[0]
    assert hit.text == TEXTS[1]
    assert (hit.rank, hit.vector.rank, hit.lexical.rank) == (1, 1, 1)
    assert set(hit.matched_terms) == {"filter", "hx-4471-b", "hx", "4471", "b"}
    assert hit.text == TEXTS[1]
    assert (hit.char_start, hit.char_end) == (len(TEXTS[0]), len(TEXTS[0]) + len(TEXTS[1]))


def test_a_candidate_of_one_leg_is_scored_exactly_in_the_other(store: models.Store) -> None:
    nearer = [f"Ordinary sentence number {number}." for number in range(60)]
    publish(make_file(store, "nearer"), nearer, [unit(1)] * len(nearer))
    settings = {"vector_weight": 0.1, "bm25_weight": 0.9}
    hits = find(index_query([store], "filter", unit(1), settings=settings))
    lexical_only = next(hit for hit in hits if hit.text == TEXTS[1])
    assert lexical_only.vector.rank is None
    assert lexical_only.vector.score == pytest.approx(0.0, abs=1e-3)


def test_a_rare_code_is_among_the_first_three_wherever_the_vectors_point() -> None:
    store = make_store(make_space(), "codes")
    texts = [f"Ordinary sentence number {word} about pumps" for word in "abcdefghij"]
    vectors = [unit(1, i / 20) for i in range(10)]
    publish(make_file(store), [*texts, "Part ZX-9000-Q"], [*vectors, unit(-1)])
    hits = find(index_query([store], "What about the pumps and part ZX-9000-Q?", unit(1), top_k=5))
    assert "Part ZX-9000-Q" in [hit.text for hit in hits[:3]]


def test_rrf_adds_the_reciprocal_ranks(store: models.Store) -> None:
    hits = find(index_query([store], "filter", unit(0, 1), settings={"fusion": "rrf"}))
    for hit in hits:
        parts = [(0.7, hit.vector.rank), (0.3, hit.lexical.rank)]
        assert hit.score == pytest.approx(sum(w / (60 + r) for w, r in parts if r))


def test_disabled_chunks_are_not_found_by_either_leg(store: models.Store) -> None:
    models.Chunk.objects.filter(text=TEXTS[1]).update(enabled=False)
    assert TEXTS[1] not in [hit.text for hit in find(index_query([store], "filter", unit(0, 1)))]
    models.Chunk.objects.filter(text=TEXTS[1]).update(enabled=True)
    assert find(index_query([store], "filter", unit(0, 1)))[0].text == TEXTS[1]


def test_a_restricted_file_is_found_by_its_groups_and_editors_only(store: models.Store) -> None:
    group = Group.objects.create(name="g")
    file = models.File.objects.get(store=store)
    file.restricted_to.add(group)
    query = {"text": "filter", "vector": unit(0, 1)}
    assert find(index_query([store], **query)) == []
    assert find(index_query([store], **query, group_ids=frozenset({group.pk + 1}))) == []
    assert len(find(index_query([store], **query, group_ids=frozenset({group.pk})))) == 5
    editor = [target_of(store, sees_restricted=True)]
    assert len(find(index_query([store], **query, targets=editor))) == 5
    file.restricted_to.clear()
    assert len(find(index_query([store], **query))) == 5


def test_content_types_and_files_filter_both_legs(store: models.Store) -> None:
    other = make_file(store, "other", content_type="outline")
    publish(other, ["filter outline"], [unit(0, 1)])
    types = {"content_types": ("outline",)}
    hits = find(index_query([store], "filter", unit(0, 1), settings=types))
    assert [hit.text for hit in hits] == ["filter outline"]
    hits = find(index_query([store], "filter", unit(0, 1), file_ids=[other.pk]))
    assert [hit.text for hit in hits] == ["filter outline"]
    models.File.objects.filter(pk=other.pk).update(content_type="character")
    assert find(index_query([store], "filter", settings=types)) == []


def test_a_new_word_is_found_before_its_statistics_are_rolled_up(store: models.Store) -> None:
    file = make_file(store, "new")
    from tests.integration.index_world import draft, swap

    draft(file, ["the zyxomma arrives"], [unit(0, 0, 0, 1)])
    swap(file)
    hits = find(index_query([store], "zyxomma"))
    assert [hit.text for hit in hits] == ["the zyxomma arrives"]


def test_deleting_takes_text_vectors_terms_and_counts(store: models.Store) -> None:
    models.File.objects.filter(store=store).delete()
    stats.roll_up([store.pk])
    store.refresh_from_db()
    assert (store.n_chunks, store.sum_len) == (0, 0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM rag_chunk_vec")
        assert cursor.fetchone()[0] == 0
        cursor.execute("SELECT count(*) FROM rag_chunk_lex")
        assert cursor.fetchone()[0] == 0
        cursor.execute("SELECT count(*) FROM rag_term_df WHERE df <> 0")
        assert cursor.fetchone()[0] == 0


def test_statistics_by_deltas_equal_a_recount(store: models.Store) -> None:
    publish(make_file(store, "x"), ["pump and filter", "水泵"], [unit(1), unit(1)])
    models.Chunk.objects.filter(text=TEXTS[0]).delete()
    stats.roll_up([store.pk])

    def facts() -> Any:
        store.refresh_from_db()
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT key, df FROM rag_term_df WHERE store_id = %s AND df <> 0", [store.pk]
            )
            return Counter(dict(cursor.fetchall())), store.n_chunks, store.sum_len

    by_delta = facts()
    stats.recount_statistics(store.pk)
    assert facts() == by_delta


def test_keys_that_collide_across_stores_do_not_break_the_statement(monkeypatch: Any) -> None:
    space = make_space()
    stores = [make_store(space, name) for name in ("one", "two")]
    monkeypatch.setattr("rag.providers.postgres.search.hybrid.term_key", lambda store, term: 7)
    for store in stores:
        publish(make_file(store), ["pump"], [unit(1)])
    assert len(find(index_query(stores, "pump filter", unit(1)))) == 2


def test_stores_of_different_spaces_are_searched_in_one_query() -> None:
    one, two = make_space(), make_space("fake:4", dim=4)
    first, second = make_store(one, "a"), make_store(two, "b")
    publish(make_file(first), ["pump one"], [unit(1)])
    publish(make_file(second), ["pump two", "nothing"], [unit(1, dim=4), unit(0, 1, dim=4)])
    query = index_query([first, second], "pump", unit(1))
    query = type(query)(
        **{
            **{name: getattr(query, name) for name in query.__dataclass_fields__},
            "vectors": {one.pk: unit(1), two.pk: unit(1, dim=4)},
        }
    )
    hits = find(query)
    assert {hit.text for hit in hits[:2]} == {"pump one", "pump two"}
    assert hits[0].vector.score == pytest.approx(1.0, abs=1e-3)
    assert hits[1].vector.score == pytest.approx(1.0, abs=1e-3)


def test_a_vector_of_another_dimension_is_refused(store: models.Store) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        publish(make_file(store, "bad"), ["x"], [unit(1, dim=4)])


def test_no_known_word_leaves_the_vectors(store: models.Store) -> None:
    hits = find(index_query([store], "qqqq wwww", unit(1), top_k=1))
    assert hits[0].text == TEXTS[0]
    assert find(index_query([store], "qqqq")) == []


def test_a_draft_that_claims_a_vector_nobody_has_is_not_swapped_in(store: models.Store) -> None:
    from tests.integration.index_world import draft, swap

    file = make_file(store, "claims")
    draft(file, ["no such text lives"], [None])
    with pytest.raises(ConflictError), transaction.atomic():
        swap(file)
    assert not models.Chunk.objects.filter(file=file).exists()


def test_characters_inside_longer_words_are_found_when_asked_alone(store: models.Store) -> None:
    for asked, text in {"泵": TEXTS[3], "册": TEXTS[3], "早": TEXTS[2], "江大": TEXTS[3]}.items():
        hit = find(index_query([store], asked))[0]
        assert hit.text == text
        assert asked in hit.matched_terms
    assert find(index_query([store], "氢")) == []


def test_the_texts_are_looked_through_under_the_same_filters(store: models.Store) -> None:
    file = models.File.objects.get(store=store)
    file.restricted_to.add(Group.objects.create(name="g"))
    assert find(index_query([store], "泵")) == []


def test_two_codes_of_which_one_is_in_a_wordy_text_are_both_among_the_first_three() -> None:
    store = make_store(make_space(), "codes")
    texts = [f"what does the pump part cost in the shop number {word}" for word in "abcdefgh"]
    texts += ["Part ZX-9000-Q", "Part AB-7311-K is old"]
    vectors = [*(unit(1, i / 20) for i in range(8)), unit(-1), unit(-1, 0.1)]
    publish(make_file(store), texts, vectors)
    query = "what does the pump part ZX-9000-Q cost in the shop, and AB-7311-K?"
    hits = find(index_query([store], query, unit(1), top_k=5))
    assert set(texts[8:]) <= {hit.text for hit in hits[:3]}


def test_a_bare_word_prefers_texts_that_hold_it_to_texts_that_are_like_it() -> None:
    store = make_store(make_space(), "bare")
    texts = [*(f"灌溉设备说明{word}" for word in "甲乙丙丁"), "第五章讲水泵。"]
    publish(make_file(store), texts, [*(unit(1, i / 9) for i in range(4)), unit(-1)])
    hits = find(index_query([store], "水泵", unit(1)))
    assert hits[0].text == texts[4]
    assert 0.5 <= hits[0].score <= 1
