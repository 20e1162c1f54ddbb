"""Questions that name a document, page or section: found by name, in order, with today's rights."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group

from rag import models
from rag.core.access import Scope
from rag.core.types import Answer, SearchResult
from rag.services.access import scope_of
from rag.services.answers import ask
from rag.services.search import retrieve
from rag.services.search.document_lookup import MAX_HITS
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, StoreFactory, UserFactory, publish

PARKING = (
    "停车场说明\n停车场在温室东侧。",
    "第一章 收费\n月卡每张 300 元。停车半小时内免费。",
    "第二章 时间\n停车场七点开门。",
)
SAFETY = (
    "Safety manual\nThis manual covers the plant room.",
    "1. Doors\nDoors are kept closed. Alarms ring otherwise.",
    "2. Masks\nMasks are worn in the acid store.",
    "3.2 Gloves\nGloves are changed every week.",
)


@pytest.fixture
def store(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> Any:
    use_words_embedder(monkeypatch, settings)
    store = StoreFactory(owner=UserFactory(), slug="house")
    add(store, "停车场说明.pdf", PARKING)
    add(store, "safety-manual.pdf", SAFETY)
    add(store, "notes.txt", ("Gloves and masks are sold at the desk. 月卡在服务台办理。",))
    return store


def add(store: Any, name: str, texts: tuple[str, ...]) -> models.File:
    file: models.File = FileFactory(store=store, name=name)
    for chunk in publish(file, *texts):
        heading = chunk.text.split("\n")[0]
        models.Chunk.objects.filter(pk=chunk.pk).update(heading_path=[heading])
    return file


def search(query: str, store: Any, scope: Scope | None = None) -> SearchResult:
    return retrieve(query=query, scope=scope or Scope.operator(), stores=[store], purpose="test")


def answer(question: str, store: Any) -> Answer:
    return ask(question=question, scope=Scope.operator(), stores=[store])


def names(result: SearchResult) -> set[str]:
    return {hit.file_name for hit in result.hits}


def test_a_summary_is_the_first_passage_of_each_section_in_order(store: Any) -> None:
    found = search("总结《停车场说明》", store)
    assert [hit.text for hit in found.hits] == list(PARKING)
    assert found.metadata["documents"]["files"][0]["name"] == "停车场说明.pdf"
    assert found.confidence == 1.0


def test_the_extractive_summary_is_the_outline_with_first_sentences_cited(store: Any) -> None:
    said = answer("总结《停车场说明》", store)
    assert "- 第一章 收费：月卡每张 300 元。[2]" in said.text
    assert "- 第二章 时间：停车场七点开门。[3]" in said.text and "半小时" not in said.text
    assert {one.verdict for one in said.citations} == {"verified"}
    english = answer("summarize the safety manual", store)
    assert "- Doors: Doors are kept closed.[2]" in english.text
    assert english.text.count("\n") == 3


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("what is on page 3 of the safety manual?", [SAFETY[2]]),
        ("安全 what is on page 99 of safety-manual.pdf", None),
        ("what is in section 3.2 of the safety manual", [SAFETY[3]]),
        ("What is in section 3.2?", [SAFETY[3]]),
        ("停车场说明第二章讲了什么？", [PARKING[2]]),
        ("《停车场说明》第2页讲了什么", [PARKING[1]]),
        ("what is on slide 4?", [SAFETY[3]]),
    ],
)
def test_a_page_or_section_is_read_where_it_stands(
    query: str, texts: list[str] | None, store: Any
) -> None:
    found = search(query, store)
    if texts is None:
        assert names(found) <= {"safety-manual.pdf"}
        assert not found.metadata["documents"]["is_found"]
    else:
        assert [hit.text for hit in found.hits] == texts


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What does “safety-manual.pdf” say about “Gloves”?", SAFETY[3]),
        ("《停车场说明》里关于“时间”是怎么说的？", PARKING[2]),
        ("What is in the section “Gloves”?", SAFETY[3]),
        ("“收费”这一章讲了什么？", PARKING[1]),
    ],
)
def test_a_section_is_found_by_its_heading(question: str, text: str, store: Any) -> None:
    found = search(question, store)
    assert ([hit.text for hit in found.hits], found.mode) == ([text], "lookup")


def test_the_extractive_answer_to_a_section_is_all_that_it_says(store: Any) -> None:
    said = answer("What does “safety-manual.pdf” say about “Doors”?", store)
    assert said.text == "Doors are kept closed.[1]\nAlarms ring otherwise.[2]"


def test_a_heading_that_no_section_has_is_searched_for(store: Any) -> None:
    found = search("What does “safety-manual.pdf” say about “acid”?", store)
    assert SAFETY[2] in found.hits[0].text and names(found) == {"safety-manual.pdf"}


def test_a_named_file_is_where_to_search(store: Any) -> None:
    assert names(search("《停车场说明》里月卡多少钱？", store)) == {"停车场说明.pdf"}
    assert names(search("How often are gloves changed in safety-manual.pdf?", store)) == {
        "safety-manual.pdf"
    }
    assert "notes.txt" in names(search("月卡多少钱？", store))


def test_a_title_that_is_only_mentioned_is_no_file_that_begins_with_it(store: Any) -> None:
    add(store, "a.txt", ("《圣经》研究\n月卡多少钱，圣经没有说。",))
    assert "停车场说明.pdf" in names(search("《圣经》里月卡多少钱？", store))


def test_two_documents_are_compared(store: Any) -> None:
    found = search("compare the safety manual and 停车场说明", store)
    assert names(found) == {"safety-manual.pdf", "停车场说明.pdf"}
    assert found.hits[0].file_name == "safety-manual.pdf", "in the order of the question"


def test_no_match_is_told(store: Any) -> None:
    said = answer("总结《消防手册》", store)
    assert said.notice.startswith("没有找到名为“消防手册”的文件。")
    assert answer("summarize the fire manual", store).notice.startswith(
        "There is no file called “fire manual”."
    )
    assert "no file" not in answer("Summarize photosynthesis", store).notice


def test_several_matches_are_told(store: Any) -> None:
    add(store, "safety manual 2024.pdf", SAFETY[:2])
    add(store, "old safety manual.pdf", SAFETY[:2])
    exact = search("summarize the safety manual", store)
    assert names(exact) == {"safety-manual.pdf"}, "one of exactly this name"
    said = answer("compare the old safety manual and the safety manual 2024", store)
    assert "Several" not in said.notice
    several = answer("what is on page 2 of the manual?", store)
    assert several.notice.startswith("Several files match: ")
    assert "old safety manual.pdf" in several.notice
    unnamed = answer("What is on page 2?", store)
    assert "停车场说明.pdf" in unnamed.notice


def test_a_title_names_a_file_too(store: Any) -> None:
    add(store, "scan_0017.pdf", ("消防手册\n灭火器在门边。", "第一章 报警\n先拨 119。"))
    assert names(search("总结消防手册", store)) == {"scan_0017.pdf"}


def test_nobody_is_told_of_a_file_that_is_not_theirs(store: Any) -> None:
    store.is_public = True
    store.save()
    file = models.File.objects.get(name="safety-manual.pdf")
    file.restricted_to.add(Group.objects.create(name="staff"))
    stranger = scope_of(UserFactory())
    found = search("summarize the safety manual", store, stranger)
    assert "safety-manual.pdf" not in names(found)
    assert found.metadata["documents"]["missing"] == ["safety manual"]
    for query in ("what is on page 3 of safety-manual.pdf", "What is in section 3.2?"):
        found = search(query, store, stranger)
        assert (found.metadata["documents"] or {"files": []})["files"] == []
        assert not any("Gloves are changed" in hit.text for hit in found.hits)


def test_disabled_passages_are_left_out(store: Any) -> None:
    models.Chunk.objects.filter(text=PARKING[1]).update(enabled=False)
    assert [hit.text for hit in search("总结《停车场说明》", store).hits] == [
        PARKING[0],
        PARKING[2],
    ]


def test_a_long_document_is_held_by_the_budget(store: Any) -> None:
    texts = tuple(f"{n}. Part\nThe part {n} is {'long ' * 60}." for n in range(1, 80))
    add(store, "long guide.pdf", texts)
    found = search("summarize the long guide", store)
    spent = sum(hit.token_count for hit in found.hits)
    assert 2 <= len(found.hits) <= MAX_HITS
    assert spent <= store.retrieval_settings.context_tokens
    assert found.hits[0].text == texts[0]
