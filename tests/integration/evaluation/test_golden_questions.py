"""Golden questions: made, completed, exported and imported."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag import models
from rag.core.access import Scope
from rag.core.errors import ForbiddenError, InvalidInputError, LimitError, NotFoundError
from rag.services.access.api_keys import scope_of
from rag.services.chunks import find as find_passages
from rag.services.evaluation import golden_csv
from rag.services.evaluation.golden_csv import export_questions, import_questions
from rag.services.evaluation.golden_questions import TargetSpec, save_question, set_targets
from rag.stages.text.terms import index_terms
from tests.edges.admin_client import use_words_embedder
from tests.factories import FileFactory, GroupFactory, StoreFactory, UserFactory, publish
from tests.integration.golden_world import TEXTS, golden, golden_store

pytestmark = pytest.mark.django_db
OPERATOR = Scope.operator()


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None) -> None:
    use_words_embedder(monkeypatch, settings)


def exported(store: models.Store) -> str:
    return "".join(export_questions(questions=store.golden_questions.all()))


def take(store: models.Store, text: str | bytes) -> golden_csv.ImportResult:
    data = text.encode() if isinstance(text, str) else text
    return import_questions(scope=OPERATOR, store=store, data=data, by=None)


def facts(store: models.Store) -> list[tuple[Any, ...]]:
    rows = store.golden_questions.order_by("query")
    return [
        (
            q.query,
            q.enabled,
            q.note,
            [
                (t.grade, t.file.name, t.chunk and t.chunk.text)
                for t in q.targets.order_by("-grade", "chunk__text")
            ],
        )
        for q in rows
    ]


def test_the_same_words_are_one_question_that_gets_more_targets() -> None:
    store, chunks = golden_store()
    one, is_new = save_question(
        scope=OPERATOR, store=store, query="  pump ", wanted=[TargetSpec(chunks[0].pk, grade=2)]
    )
    assert is_new
    same, is_new = save_question(
        scope=OPERATOR,
        store=store,
        query="pump",
        wanted=[TargetSpec(chunks[1].pk), TargetSpec(chunks[0].pk, grade=3)],
    )
    assert (same, is_new) == (one, False)
    assert {t.chunk_id: t.grade for t in one.targets.all()} == {chunks[0].pk: 3, chunks[1].pk: 1}
    set_targets(scope=OPERATOR, question=one, wanted=[TargetSpec(file_id=chunks[0].file_id)])
    assert [(t.chunk_id, t.file_id) for t in one.targets.all()] == [(None, chunks[0].file_id)]


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (TargetSpec(chunk_id=10**12), NotFoundError),
        (TargetSpec(file_id=10**12), NotFoundError),
        (TargetSpec(), InvalidInputError),
        (TargetSpec(file_id=1, grade=4), InvalidInputError),
    ],
)
def test_what_the_store_does_not_have_is_refused_and_nothing_kept(
    wanted: TargetSpec, error: type[Exception]
) -> None:
    store, _ = golden_store()
    with pytest.raises(error):
        save_question(scope=OPERATOR, store=store, query="pump", wanted=[wanted])
    assert not models.GoldenQuestion.objects.exists()


def test_a_chunk_of_another_store_is_not_there() -> None:
    store, _ = golden_store()
    _, others = golden_store()
    with pytest.raises(NotFoundError):
        save_question(scope=OPERATOR, store=store, query="x", wanted=[TargetSpec(others[0].pk)])


def test_only_editors_make_questions() -> None:
    readers, user = GroupFactory(), UserFactory()
    store = StoreFactory(readers=[readers])
    with pytest.raises(NotFoundError):
        save_question(scope=scope_of(user), store=store, query="pump")
    user.groups.add(readers)
    with pytest.raises(ForbiddenError):
        save_question(scope=scope_of(user), store=store, query="pump")


def test_an_export_is_taken_by_another_store_with_the_same_file() -> None:
    store, chunks = golden_store()
    golden(store, "warranty?", chunks[:2], grade=3)
    question = golden(store, '=1+1 "quoted",\nlines')
    models.GoldenTarget.objects.create(question=question, file=chunks[0].file)
    golden(store, "nothing yet")
    models.GoldenQuestion.objects.filter(query="nothing yet").update(enabled=False, note="later")
    text = exported(store)
    assert "\n=1" not in text
    other, _ = golden_store()
    told = take(other, text)
    assert (told.n_new, told.n_known, told.problems) == (3, 0, ())
    assert facts(other) == facts(store)
    assert {q.origin for q in other.golden_questions.all()} == {"csv"}
    again = take(other, text)
    assert (again.n_new, again.n_known) == (0, 3)
    assert facts(other) == facts(store)


def test_lines_that_cannot_be_taken_are_told_with_their_numbers() -> None:
    store, chunks = golden_store()
    told = take(
        store,
        "question;grade;file;passage;chunk\n"
        f"good;2;guide.txt;{TEXTS[0]};\n"
        "no such file;1;other.txt;;\n"
        "no such passage;1;guide.txt;Wholly unknown words of somebody else;\n"
        "bad grade;9;guide.txt;;\n"
        f"by number;;;;{chunks[2].pk}\n"
        "bad number;;;;x1\n"
        "no file;;;some words;\n"
        ";1;guide.txt;;\n",
    )
    assert told.n_new == 2
    assert [number for number, _ in told.problems] == [3, 4, 5, 7, 8, 9]
    assert facts(store) == [
        ("by number", True, "", [(1, "guide.txt", TEXTS[2])]),
        ("good", True, "", [(2, "guide.txt", TEXTS[0])]),
    ]


def test_a_thousand_lines_take_no_more_statements_than_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    store, chunks = golden_store()
    looked: list[str] = []
    monkeypatch.setattr(
        find_passages, "index_terms", lambda text: looked.append(text) or index_terms(text)
    )

    def statements(n: int) -> int:
        body = "".join(f"{n} of {m},,guide.txt,{TEXTS[m % 2]},\n" for m in range(n))
        body += "".join(f"{n} lost {m},,guide.txt,gone since {m} years,\n" for m in range(n))
        body += "".join(f"{n} number {m},,,,{chunks[2].pk}\n" for m in range(n))
        with CaptureQueriesContext(connection) as captured:
            told = take(store, f"question,grade,file,passage,chunk\n{body}")
        assert (told.n_new, told.n_known) == (2 * n, 0)
        assert [number for number, _ in told.problems] == list(range(n + 2, 2 * n + 2))
        return len(captured)

    few = statements(10)
    looked.clear()
    assert statements(400) <= few + 1 <= 16
    # The passages that are gone, and each chunk once: not each chunk for each of them.
    assert len(looked) == 400 + len(chunks)
    assert models.GoldenTarget.objects.count() == 820


def test_the_first_line_says_the_facts_and_the_last_one_the_grade() -> None:
    store, chunks = golden_store()
    take(
        store,
        "question,grade,file,passage,enabled,note\n"
        f"warranty?,1,guide.txt,{TEXTS[0]},no,first\n"
        f"warranty?,3,guide.txt,{TEXTS[0]},yes,second\n"
        "warranty?,2,guide.txt,,yes,third\n",
    )
    (question,) = store.golden_questions.all()
    assert (question.enabled, question.note) == (False, "first")
    places = question.targets.order_by("chunk").values_list("chunk", "file", "grade")
    assert list(places) == [(chunks[0].pk, chunks[0].file_id, 3), (None, chunks[0].file_id, 2)]
    told = take(store, f"question,grade,file,passage\nwarranty?,2,guide.txt,{TEXTS[0]}\n")
    assert (told.n_new, told.n_known) == (0, 1)
    assert question.targets.get(chunk=chunks[0]).grade == 2
    assert question.targets.count() == 2


def test_an_import_that_breaks_off_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = golden_store()

    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError("the connection was cut")

    monkeypatch.setattr(models.GoldenTarget.objects, "bulk_update", fail)
    with pytest.raises(OperationalError):
        take(store, f"question,file,passage\nwarranty?,guide.txt,{TEXTS[0]}\n")
    assert not models.GoldenQuestion.objects.exists()
    assert not models.GoldenTarget.objects.exists()


def test_a_chunk_of_another_store_is_no_number_of_a_line() -> None:
    store, _ = golden_store()
    _, others = golden_store()
    told = take(store, f"question,chunk\nx,{others[0].pk}\ny,0\nz,\n")
    assert [(number, error.params) for number, error in told.problems] == [
        (2, {"id": str(others[0].pk)}),
        (3, {"id": "0"}),
    ]
    assert [question.query for question in store.golden_questions.all()] == ["z"]


def test_a_file_of_a_chinese_spreadsheet_is_read() -> None:
    store = StoreFactory()
    publish(FileFactory(store=store, name="手册.txt"), "水泵的保修期为两年。", "种子存放在干燥处。")
    told = take(
        store,
        "question,file,passage\r\n保修多久？,手册.txt,水泵的保修期为两年。\r\n".encode("gb18030"),
    )
    assert (told.n_new, told.problems) == (1, ())
    assert facts(store)[0][3] == [(1, "手册.txt", "水泵的保修期为两年。")]


def test_files_that_are_no_such_csv_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = golden_store()
    with pytest.raises(InvalidInputError, match="no column"):
        take(store, "query,chunk\nx,1\n")
    with pytest.raises(InvalidInputError, match="no column"):
        take(store, "")
    monkeypatch.setattr(golden_csv, "MAX_LINES", 2)
    with pytest.raises(LimitError, match="lines"):
        take(store, "question\na\nb\nc\n")
    monkeypatch.setattr(golden_csv, "MAX_BYTES", 3)
    with pytest.raises(LimitError, match="MB"):
        take(store, "question\n")


texts = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=30)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(texts.filter(str.strip), min_size=1, max_size=5, unique_by=str.strip))
def test_any_question_survives_export_and_import(questions: list[str]) -> None:
    store, other = StoreFactory(), StoreFactory()
    for query in questions:
        save_question(scope=OPERATOR, store=store, query=query)
    text = exported(store)
    for row in csv.reader(io.StringIO(text)):
        assert not row[0].startswith(("=", "+", "-", "@"))
    assert take(other, text).problems == ()
    kept = {q.query.lstrip("'") for q in other.golden_questions.all()}
    assert kept == {q.query.lstrip("'") for q in store.golden_questions.all()}
