"""Citations of texts written from results: markers, attribution, and chunks read anew."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rag import models
from rag.core.access import Scope
from rag.core.errors import InvalidInputError
from rag.core.hits import Hit
from rag.services.answers.citations import CitationManager, pin_hits
from rag.services.chunks.add import delete_chunks
from rag.stages.ranking.postprocess import merge_neighbours
from tests.factories import FileFactory, GroupFactory, StoreFactory, publish

pytestmark = pytest.mark.django_db
OPERATOR = Scope.operator()
PUMP = "The pump stops at night. Wait 15 minutes until the motor is cool, then restart it."
FEE = "服务合同每年续签一次，月费为3850元。"


def hit_of(chunk: models.Chunk, **more: Any) -> Hit:
    hit = Hit(
        text=chunk.text,
        rank=1,
        score=0.8,
        file_name=chunk.file.name,
        chunk_id=chunk.pk,
        revision=chunk.revision,
        store_id=chunk.store_id,
        file_id=chunk.file_id,
        content_type=chunk.content_type,
        char_start=chunk.char_start,
        char_end=chunk.char_end,
        page_first=chunk.page_first,
        page_last=chunk.page_last,
    )
    return replace(hit, **more)


def results(*hits: Hit) -> list[dict[str, Any]]:
    return json.loads(json.dumps([hit.as_dict() for hit in hits]))  # type: ignore[no-any-return]


def edit(chunk: models.Chunk, text: str) -> None:
    models.ChunkRevision.objects.create(
        chunk=chunk,
        revision=chunk.revision,
        text=chunk.text,
        char_start=chunk.char_start,
        char_end=chunk.char_end,
        page_first=chunk.page_first,
        page_last=chunk.page_last,
        file_revision=chunk.file_revision,
    )
    chunk.text, chunk.revision = text, chunk.revision + 1
    chunk.save()


@pytest.fixture
def chunks() -> list[models.Chunk]:
    return publish(FileFactory(store=StoreFactory(is_public=True)), PUMP, FEE)


def test_markers_become_numbers_with_verdicts_and_places(chunks: list[models.Chunk]) -> None:
    text = 'It stops <cite doc_id="doc_01" quote="The pump stops at night.">at night</cite>, 月费 [2]。'
    found = CitationManager.add_citations(text, results(*map(hit_of, chunks)), scope=OPERATOR)
    assert found["text"] == "It stops at night[1], 月费 [2]。"
    assert (found["method"], found["citation_count"]) == ("markers", 2)
    first, second = found["citations"]
    file = chunks[0].file
    assert first["source"] == {"type": "document", "name": file.name, "id": str(file.pk)}
    canonical = models.File.objects.get(pk=file.pk).canonical_text
    assert canonical[first["char_start"] : first["char_end"]] == "The pump stops at night."
    assert (first["id"], first["verdict"], first["relevance"], first["likeness"]) == (
        1,
        "verified",
        0.8,
        1.0,
    )
    assert (first["page"], first["chunk_id"], first["revision"], first["is_pinned"]) == (
        1,
        chunks[0].pk,
        1,
        True,
    )
    assert (second["verdict"], second["likeness"], second["source"]["name"]) == (
        "unknown",
        0.0,
        file.name,
    )
    assert found["unsupported"] == ["It stops at night, 月费"]
    assert json.loads(json.dumps(found)) == found


def test_offsets_of_a_later_chunk_lead_to_the_canonical_text(chunks: list[models.Chunk]) -> None:
    found = CitationManager().add_citations(
        "月费为3850元 [2]。", results(*map(hit_of, chunks)), scope=OPERATOR
    )
    (citation,) = found["citations"]
    canonical = models.File.objects.get(pk=chunks[0].file_id).canonical_text
    assert citation["page"] == 2
    assert canonical[citation["char_start"] : citation["char_end"]] == "月费为3850元"


def test_without_markers_sentences_are_attributed(chunks: list[models.Chunk]) -> None:
    text = "Wait 15 minutes until the motor is cool, then restart it. The moon is made of cheese. 月费为3580元，服务合同每年续签一次。"
    found = CitationManager.add_citations(text, results(*map(hit_of, chunks)))
    assert found["method"] == "attribution"
    assert [one["verdict"] for one in found["citations"]] == ["verified"]
    assert found["unsupported"] == [
        "The moon is made of cheese.",
        "月费为3580元，服务合同每年续签一次。",
    ]
    told = [(one["verdict"], one["reason"]) for one in found["grounding"]["statements"]]
    assert told == [("attributed", ""), ("unsupported", "missing"), ("contradicted", "number")]
    assert found["text"].startswith(
        "Wait 15 minutes until the motor is cool, then restart it.[1] The moon"
    )
    assert found["citations"][0]["is_pinned"] is False
    assert found["citations"][0]["likeness"] == 1


def test_minimal_results_are_enough() -> None:
    seed = [
        {"content": PUMP, "score": 0.5, "source": {"type": "manual", "name": "Pump", "id": "m1"}}
    ]
    for scope in (None, OPERATOR):
        found = CitationManager.add_citations("The pump stops at night [1].", seed, scope=scope)
        (citation,) = found["citations"]
        assert citation["source"] == {"type": "manual", "name": "Pump", "id": "m1"}
        assert (citation["verdict"], citation["relevance"], citation["is_pinned"]) == (
            "verified",
            0.5,
            False,
        )
        assert (citation["char_start"], citation["char_end"]) == (0, 23)
    assert (
        CitationManager.format_citations(found["citations"]) == "\n\n[Sources]\n[1] manual - Pump"
    )


def merged(chunks: list[models.Chunk]) -> Hit:
    canonical = models.File.objects.get(pk=chunks[0].file_id).canonical_text
    hits = [hit_of(chunk, rank=rank) for rank, chunk in enumerate(chunks, start=1)]
    (hit,), _ = merge_neighbours(hits, lambda _, start, end: canonical[start:end])
    return hit


def test_all_parts_of_a_merged_result_are_read_anew(chunks: list[models.Chunk]) -> None:
    hit = merged(chunks)
    (pinned,) = pin_hits(hits=[replace(hit, text="forged " * 9)], scope=OPERATOR)
    assert pinned.text.split() == [*PUMP.split(), FEE] and pinned.chunk_ids == hit.chunk_ids
    assert (pinned.page_first, pinned.page_last, pinned.char_end) == (1, 2, hit.char_end)
    (same,) = pin_hits(hits=[hit], scope=OPERATOR)
    assert (same.text, same.data) == (hit.text, hit.data)
    text = f'<cite doc_id="doc_01" quote="{FEE}">x</cite>'
    (citation,) = CitationManager.add_citations(text, results(hit), scope=OPERATOR)["citations"]
    assert (citation["verdict"], citation["page"]) == ("verified", 2)
    assert citation["chunk_id"] == chunks[1].pk
    delete_chunks(scope=OPERATOR, chunk_ids=[chunks[1].pk], by=None)
    (citation,) = CitationManager.add_citations(text, results(hit), scope=OPERATOR)["citations"]
    assert citation["verdict"] == "unknown"
    assert pin_hits(hits=[hit], scope=OPERATOR)[0].text == ""


def test_the_parts_of_a_result_that_have_no_shape_are_an_error(chunks: list[models.Chunk]) -> None:
    (result,) = results(merged(chunks))
    for parts in (
        "x",
        [7],
        [{"chunk_id": "7"}],
        [{**result["data"]["chunks"][0], "chunk_id": "7"}],
    ):
        with pytest.raises(InvalidInputError):
            CitationManager.add_citations("x", [{**result, "data": {"chunks": parts}}])


def test_results_may_have_names_of_their_own() -> None:
    seed = [{"content": PUMP, "doc_id": "pump"}, {"content": FEE, "doc_id": "fee"}]
    text = '<cite doc_id="fee" quote="服务合同每年续签一次，月费为3850元。">x</cite>'
    (citation,) = CitationManager.add_citations(text, seed)["citations"]
    assert (citation["verdict"], citation["doc_id"]) == ("verified", "fee")
    with pytest.raises(InvalidInputError, match="Two results have the same"):
        CitationManager.add_citations(text, [seed[0], seed[0]])


def test_whole_sentences_can_be_asked_for() -> None:
    text = '<cite doc_id="doc_01" quote="Wait 15 minutes until the motor is cool">x</cite>'
    verdicts = [
        CitationManager.add_citations(text, [{"content": PUMP}], is_strict=strict)["citations"][0][
            "verdict"
        ]
        for strict in (False, True)
    ]
    assert verdicts == ["verified", "altered"]


def test_nothing_is_cited_without_results_and_nothing_hidden() -> None:
    found = CitationManager.add_citations("The pump stops [1].", [])
    assert found["citations"][0]["verdict"] == "unknown"
    assert found["citations"][0]["source"] == {"type": "", "name": "1", "id": ""}
    assert CitationManager.format_citations(found["citations"]).endswith("(no support found)")
    found = CitationManager.add_citations("The pump stops.", [])
    assert (found["citations"], found["unsupported"]) == ([], ["The pump stops."])
    assert CitationManager.format_citations([]) == ""


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"content": 5},
        {"content": "x", "char_start": "5"},
        {"content": "x", "score": "high"},
        {"content": "x", "chunk_id": {}},
    ],
)
def test_results_of_a_wrong_shape_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        CitationManager.add_citations("The pump stops [1].", [wrong])


def test_a_forged_content_proves_nothing(chunks: list[models.Chunk]) -> None:
    forged = hit_of(chunks[0], text="The moon is made of cheese.", file_name="Bible", page_first=99)
    text = '<cite doc_id="doc_01" quote="The moon is made of cheese.">x</cite>\nThe pump stops at night [1].'
    first, second = CitationManager.add_citations(text, results(forged), scope=OPERATOR)[
        "citations"
    ]
    assert (first["verdict"], second["verdict"]) == ("unknown", "verified")
    assert (second["source"]["name"], second["page"]) == (chunks[0].file.name, 1)
    trusted = CitationManager.add_citations(text, results(forged))["citations"]
    assert trusted[0]["verdict"] == "verified"


def test_a_quote_is_looked_for_in_the_pinned_revision(chunks: list[models.Chunk]) -> None:
    before = hit_of(chunks[0])
    edit(chunks[0], "The pump never stops at all. Nobody waits for the motor.")
    after = hit_of(chunks[0])
    text = "The pump stops at night [1]. The pump never stops at all [2]."
    found = CitationManager.add_citations(text, results(before, after), scope=OPERATOR)["citations"]
    assert [(one["verdict"], one["revision"]) for one in found] == [
        ("verified", 1),
        ("verified", 2),
    ]
    # The edited words are nowhere in the file: the chunk's own span is their place.
    assert (found[1]["char_start"], found[1]["char_end"]) == (0, len(PUMP))
    newest = pin_hits(hits=[replace(before, revision=None)], scope=OPERATOR)
    assert (newest[0].revision, newest[0].text) == (2, chunks[0].text)


def test_a_retired_chunk_still_opens(chunks: list[models.Chunk]) -> None:
    old = hit_of(chunks[0])
    publish(chunks[0].file, "Everything is new here.")
    assert not models.Chunk.objects.get(pk=chunks[0].pk).is_live
    (citation,) = CitationManager.add_citations(
        "The pump stops at night [1].", results(old), scope=OPERATOR
    )["citations"]
    assert citation["verdict"] == "verified"


def test_who_may_not_read_a_chunk_learns_nothing_of_it() -> None:
    group = GroupFactory()
    readable = publish(FileFactory(store=StoreFactory(is_public=True)), PUMP)[0]
    hidden = publish(FileFactory(store=StoreFactory(readers=[group]), name="secret.pdf"), FEE)[0]
    restricted = publish(
        FileFactory(store=StoreFactory(is_public=True), restricted=[group]), "The code is 4711."
    )[0]
    given = results(hit_of(hidden), hit_of(readable), hit_of(restricted))
    text = "月费为3850元 [1]。The pump stops at night [2]. The code is 4711 [3]."
    found = CitationManager.add_citations(text, given, scope=Scope.anonymous())["citations"]
    assert [one["verdict"] for one in found] == ["unknown", "verified", "unknown"]
    assert found[0]["source"] == {"type": "", "name": "doc_01", "id": ""}
    assert (found[0]["file_name"], found[0]["chunk_id"], found[0]["relevance"]) == ("", None, 0.0)
    member = Scope(User.objects.create(username="u").pk, frozenset([group.pk]))
    found = CitationManager.add_citations(text, given, scope=member)["citations"]
    assert [one["verdict"] for one in found] == ["verified"] * 3


@pytest.mark.parametrize(
    "more",
    [
        {"chunk_id": 10**9},
        {"chunk_id": 2**70},
        {"chunk_id": -1},
        {"revision": 77},
        {"revision": 2**70},
    ],
)
def test_a_chunk_that_never_was_leaves_nothing(
    chunks: list[models.Chunk], more: dict[str, int]
) -> None:
    hit = hit_of(chunks[0], **more)
    assert pin_hits(hits=[hit], scope=OPERATOR) == (Hit(text="", rank=1),)


def test_all_chunks_are_read_in_one_statement(chunks: list[models.Chunk]) -> None:
    edit(chunks[0], "Edited.")
    rows = [{"content": "a row", "source_name": "database", "data": {"id": 1}}]
    hits = [
        hit_of(chunks[0]),
        hit_of(chunks[0], revision=1),
        hit_of(chunks[1]),
        Hit.from_dict(rows[0]),
    ]
    with CaptureQueriesContext(
        connection,
    ) as queries:
        found = pin_hits(hits=hits, scope=OPERATOR)
    assert len(queries) == 1
    assert [hit.text for hit in found] == ["Edited.", PUMP, FEE, "a row"]
    assert found[3] == hits[3]
    with CaptureQueriesContext(connection) as queries:
        assert pin_hits(hits=hits[3:], scope=OPERATOR) == (hits[3],)
    assert len(queries) == 0
