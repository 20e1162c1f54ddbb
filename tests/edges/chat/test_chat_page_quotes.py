"""Quotes where they stand: the page's text with its place, the page's picture with its boxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.db import connection
from django.test import Client

from agents import models
from rag.services.access.api_keys import scope_of
from rag.services.answers import page_view as page_image
from rag.services.chunks.edit import edit_chunk
from tests import hostile_files
from tests.edges.admin_client import client_of, use_words_embedder
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish

pytestmark = pytest.mark.django_db
PAGES = (
    "The pump is serviced every 30 days. 😀 The filter costs 45 yuan.",
    "The warranty lasts two years. The pump is serviced every 30 days.",
)
QUOTE = "The filter costs 45 yuan."


@dataclass
class Desk:
    """Somebody's answer with two citations and a source, on a PDF of two pages."""

    client: Client
    user: Any
    file: Any
    chunks: list[Any]
    message: models.Message

    def get(self, number: int, part: str = "", client: Client | None = None, **query: str) -> Any:
        return (client or self.client).get(f"/api/quotes/{self.message.key}/{number}{part}", query)

    def page(self, number: int, **query: str) -> dict[str, Any]:
        response = self.get(number, **query)
        assert response.status_code == 200, response.content
        told: dict[str, Any] = response.json()
        return told


def cited(number: int, chunk: Any, quote: str, **more: Any) -> dict[str, Any]:
    return {
        "number": number,
        "doc_id": "doc_01",
        "quote": quote,
        "verdict": "verified",
        "claim": "so",
        "found": quote,
        "distance": 0,
        "chunk_id": chunk.pk,
        "revision": 1,
        **more,
    }


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> Desk:
    use_words_embedder(monkeypatch, settings)
    page_image._KEPT.clear()
    user = UserFactory()
    raw = hostile_files.text_pdf([[page.replace("😀 ", "")] for page in PAGES])
    file = FileFactory(
        store=StoreFactory(owner=user),
        name="手册.pdf",
        kind="pdf",
        sha256="a" * 64,
        content=ContentFile(raw, name="a"),
    )
    chunks = publish(file, *PAGES)
    session = models.Session.objects.create(user=user)
    start = chunks[1].char_start + PAGES[1].index("The pump")
    message = models.Message.objects.create(
        session=session,
        role="assistant",
        citations=[
            cited(1, chunks[0], QUOTE),
            cited(2, chunks[1], "The pump is serviced every 30 days.", char_start=start),
            {"number": 3, "quote": "nowhere", "verdict": "unknown", "chunk_id": None},
        ],
        sources=[
            {"chunk_id": chunks[1].pk, "revision": 1, "content": PAGES[1], "doc_id": "doc_01"}
        ],
    )
    return Desk(client_of(user), user, file, chunks, message)


def test_the_page_is_told_with_the_place_of_the_quote(desk: Desk) -> None:
    told = desk.page(1)
    # Code points, as the whole house counts: the smiley is one.
    assert told["text"][told["start"] : told["end"]] == QUOTE
    assert told["text"] == PAGES[0] and told["page"] == 1 and told["file_name"] == "手册.pdf"
    assert told["verdict"] == "verified" and told["is_current"] and told["has_image"]
    second = desk.page(2)
    assert second["page"] == 2 and second["start"] == PAGES[1].index("The pump")


def test_a_quote_behind_the_pinned_chunk_is_found_by_its_place(desk: Desk) -> None:
    # Neighbours were joined to one hit: the citation pins the first and lies in the second.
    start = desk.chunks[1].char_start + PAGES[1].index("The warranty")
    words = "The warranty lasts two years."
    desk.message.citations = [cited(1, desk.chunks[0], words, char_start=start)]
    desk.message.save()
    told = desk.page(1)
    assert told["page"] == 2 and told["text"][told["start"] : told["end"]] == words
    assert len(desk.get(1, "/marks").json()["boxes"]) == 1
    desk.file.canonical_text = "All is new here."
    desk.file.save()
    told = desk.page(1)
    assert not told["is_current"] and told["text"][told["start"] : told["end"]] == words


def test_both_places_of_an_abridged_quote_are_told_and_drawn(desk: Desk) -> None:
    words = PAGES[1]
    span = [words.index(" lasts"), words.index(" every")]
    more = {"quote": "The warranty … every 30 days.", "found": words, "omitted": [span]}
    desk.message.citations = [
        {
            **cited(1, desk.chunks[1], words, char_start=desk.chunks[1].char_start),
            **more,
            "verdict": "abridged",
        }
    ]
    desk.message.save()
    told = desk.page(1)
    assert told["verdict"] == "abridged" and told["omitted"] == [span]
    assert told["text"][told["start"] : told["end"]] == words
    boxes = desk.get(1, "/marks").json()["boxes"]
    assert len(boxes) == 2 and boxes[0][0] < boxes[1][0]
    assert desk.page(1, of="sources")["omitted"] == []


def test_a_quote_over_a_page_s_end_shows_both_pages_and_draws_the_first(desk: Desk) -> None:
    words = f"{QUOTE}\f{PAGES[1][:28]}"
    start = desk.chunks[0].char_start + PAGES[0].index(QUOTE)
    desk.message.citations = [cited(1, desk.chunks[0], words, char_start=start)]
    desk.message.save()
    told = desk.page(1)
    assert told["text"] == "\f".join(PAGES)
    assert told["page"] == 1 and told["text"][told["start"] : told["end"]] == words
    assert len(desk.get(1, "/marks").json()["boxes"]) == 1


def test_a_source_is_marked_as_a_whole(desk: Desk) -> None:
    told = desk.page(1, of="sources")
    assert (told["start"], told["end"]) == (0, len(PAGES[1])) and told["page"] == 2
    assert desk.get(2, of="sources").status_code == 404


def test_the_picture_has_boxes_where_the_quote_stands_and_is_kept(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = desk.get(1, "/marks")
    assert marks.status_code == 200, marks.content
    ((left, top, width, height),) = marks.json()["boxes"]
    assert 0 < left < left + width < 1 and 0 < top < top + height < 0.5
    monkeypatch.setattr(page_image, "PageRenderer", None)
    image = desk.get(1, "/image")
    assert image["Content-Type"] == "image/png" and image.content.startswith(b"\x89PNG")
    assert image["Cache-Control"].startswith("private")


def test_nobody_else_sees_text_or_picture_not_even_from_the_cache(desk: Desk) -> None:
    assert desk.get(1, "/image").status_code == 200
    for client, code in (
        (client_of(UserFactory()), 404),
        (client_of(), 401),
        (client_of(UserFactory(is_superuser=True)), 404),
    ):
        assert [desk.get(1, part, client).status_code for part in ("", "/marks", "/image")] == [
            code,
            code,
            code,
        ]


def test_what_may_not_be_read_any_more_is_gone_for_its_asker_too(desk: Desk) -> None:
    assert desk.get(1, "/image").status_code == 200
    group = GroupFactory()
    store = desk.file.store
    store.owner = UserFactory()
    store.save()
    assert desk.get(1).status_code == 404 and desk.get(1, "/image").status_code == 404
    store.reader_groups.add(group)
    desk.user.groups.add(group)
    assert desk.get(1).status_code == 200
    desk.file.restricted_to.add(GroupFactory())
    assert desk.get(1).status_code == 404 and desk.get(1, "/marks").status_code == 404


def test_an_edited_passage_is_shown_as_it_was_quoted(desk: Desk) -> None:
    edit_chunk(
        scope=scope_of(desk.user),
        chunk_id=desk.chunks[0].pk,
        text="Other words.",
        by=desk.user,
        expected_revision=1,
    )
    told = desk.page(1)
    assert told["text"][told["start"] : told["end"]] == QUOTE and told["text"] == PAGES[0]


def test_a_file_that_changed_since_says_so_and_draws_nothing(desk: Desk) -> None:
    desk.file.canonical_text = "Something else altogether, and longer than it was before." * 3
    desk.file.save()
    told = desk.page(1)
    assert not told["is_current"] and not told["has_image"] and told["text"] == PAGES[0]
    assert desk.get(1, "/marks").status_code == 400


def test_other_kinds_have_text_and_no_picture(desk: Desk) -> None:
    desk.file.kind, desk.file.pages = "txt", []
    desk.file.save()
    told = desk.page(1)
    assert told["page"] == 1 and not told["has_image"]
    assert told["text"][told["start"] : told["end"]] == QUOTE
    answer = desk.get(1, "/image")
    assert answer.status_code == 400 and "has no pages to draw" in answer.json()["error"]["message"]


def test_a_damaged_pdf_and_lost_bytes_are_sentences(desk: Desk) -> None:
    desk.file.content.save("b", ContentFile(b"no pdf"))
    told = desk.get(1, "/marks")
    assert told.status_code in (400, 422) and "cannot be drawn" in told.json()["error"]["message"]
    desk.file.content.storage.delete(desk.file.content.name)
    assert desk.get(1, "/marks").status_code == 404


@pytest.mark.parametrize(("number", "code"), [(3, 404), (4, 404), (0, 422), (10**9, 422)])
def test_a_citation_without_a_place_has_none(desk: Desk, number: int, code: int) -> None:
    assert desk.get(number).status_code in (code, 400 if code == 422 else code)


def test_a_long_document_without_pages_is_shown_around_the_quote(desk: Desk) -> None:
    text = "x " * 40_000 + QUOTE + " y" * 40_000
    file = FileFactory(store=desk.file.store, name="long.txt")
    (chunk,) = publish(file, text)
    start = text.index(QUOTE)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE rag_file SET pages = '[]' WHERE id = %s", [file.pk])
        cursor.execute(
            "UPDATE rag_chunk SET text = %s, char_start = %s, own_start = %s, char_end = %s"
            " WHERE id = %s",
            [QUOTE, start, start, start + len(QUOTE), chunk.pk],
        )
    desk.message.citations = [cited(1, chunk, QUOTE)]
    desk.message.save()
    told = desk.page(1)
    assert told["text"][told["start"] : told["end"]] == QUOTE and len(told["text"]) < 5000
