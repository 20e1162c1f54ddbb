"""Dashboard metrics, query log with traces, and the job queue in the admin."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Count
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from procrastinate.contrib.django import app
from procrastinate.contrib.django.models import ProcrastinateJob

from rag import models
from rag.core.access import Scope
from rag.providers.procrastinate_queue import stalled_jobs
from rag.services.access.api_keys import scope_of
from rag.services.files.requeue import requeue_files
from rag.services.operations import dashboard_figures as dashboard_service
from rag.services.operations.dashboard_figures import DAYS, QueryFigures, dashboard, query_figures
from rag.services.operations.jobs import cancel_jobs, retry_jobs
from rag.services.search.retrieval import retrieve
from tests.edges.admin_client import at, client_of, page, use_words_embedder, words
from tests.factories import (
    EDITOR,
    FileFactory,
    GroupFactory,
    QueryLogFactory,
    StoreFactory,
    UserFactory,
    publish,
)
from tests.integration.golden_world import golden_store

pytestmark = pytest.mark.django_db
OPERATOR = Scope.operator()
RIGHTS = (*EDITOR, "add_goldenquestion", "view_goldenquestion")


def log(store: models.Store, days_ago: int = 0, ms: float = 10, **values: Any) -> models.QueryLog:
    times = values.pop("timings_ms", {"total": ms, "sql": ms})
    row = QueryLogFactory(store_ids=[store.pk], timings_ms=times, **values)
    at_time = timezone.now() - timedelta(days=days_ago)
    models.QueryLog.objects.filter(pk=row.pk).update(created_at=at_time)
    row.refresh_from_db()
    assert isinstance(row, models.QueryLog)
    return row


def cite(file: models.File, verdict: str = "verified") -> dict[str, Any]:
    return {
        "number": 1,
        "verdict": verdict,
        "quote": "words",
        "file_id": file.pk,
        "file_name": file.name,
        "char_start": 0,
        "char_end": 5,
    }


def test_figures_are_counted_by_day() -> None:
    store = StoreFactory()
    for ms in (10, 20, 30, 40):
        log(store, 0, ms, confidence=0.9)
    log(store, 1, 100, confidence=0.2)
    log(store, 1, 100, chunk_ids=[])
    log(store, DAYS + 1, 5000)
    figures = dashboard(scope=OPERATOR)
    assert len(figures.days) == DAYS
    *_, yesterday, today = figures.days.values()
    assert (today.n_queries, today.p50_ms, today.bad_share) == (4, 25.0, 0.0)
    assert today.p95_ms == pytest.approx(38.5)
    assert (yesterday.n_queries, yesterday.bad_share) == (2, 1.0)
    assert next(iter(figures.days.values())).p50_ms is None
    assert figures.whole.n_queries == 6
    assert figures.whole.bad_share == pytest.approx(2 / 6)
    assert figures.whole.cache_share is None


def test_an_empty_log_has_no_figures() -> None:
    figures = query_figures(rows=models.QueryLog.objects.all())
    assert figures == {None: QueryFigures()}
    whole = dashboard(scope=OPERATOR)
    assert (whole.whole.n_queries, whole.whole.bad_share, whole.whole.cache_share) == (
        0,
        None,
        None,
    )
    assert (whole.cited, whole.never_cited, whole.n_never_cited) == ((), (), 0)


def test_days_are_those_of_the_installation_s_clock(settings: Any) -> None:
    row = log(StoreFactory())
    late = datetime(2026, 3, 1, 20, 30, tzinfo=UTC)
    models.QueryLog.objects.filter(pk=row.pk).update(created_at=late)
    rows = models.QueryLog.objects.all()
    assert set(query_figures(rows=rows)) == {date(2026, 3, 1), None}
    with timezone.override("Asia/Shanghai"):
        assert set(query_figures(rows=rows)) == {date(2026, 3, 2), None}


def test_only_the_newest_queries_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    store = StoreFactory()
    file = FileFactory(store=store, n_chunks=1)
    for ms in (10, 20, 30):
        log(store, 0, ms, kind="ask", citations=[cite(file)])
    monkeypatch.setattr(dashboard_service, "MAX_ROWS", 2)
    figures = dashboard(scope=OPERATOR)
    assert (figures.whole.n_queries, figures.whole.p50_ms) == (2, 25.0)
    assert figures.cited == ((file.pk, file.name, 2),)


@pytest.mark.parametrize("is_superuser", [True, False])
def test_a_long_log_and_many_files_are_read_but_once(is_superuser: bool) -> None:
    group = GroupFactory()
    store = StoreFactory(editors=[group])
    files = [FileFactory(store=store, n_chunks=1) for _ in range(3)]
    for file in files[:2]:
        log(store, kind="ask", citations=[cite(file)])
    scope = scope_of(UserFactory(is_superuser=is_superuser, groups=[group]))
    with CaptureQueriesContext(connection) as captured:
        assert dashboard(scope=scope).n_never_cited == 1
    ran = [entry["sql"] for entry in captured.captured_queries]
    # For the figures, and for what was cited.
    assert sum('"rag_querylog"' in sql for sql in ran) == 2
    for sql in ran:
        assert 'FROM "rag_file" INNER JOIN' not in sql
        # What was cited goes as one array, not as a parameter each.
        assert sql.count("unnest") <= 1
    assert sum("unnest('{" in sql for sql in ran) == 2


def test_files_are_counted_from_the_index_alone() -> None:
    FileFactory.create_batch(3, n_chunks=1)
    counted = models.File.objects.filter(n_chunks__gt=0).values("status").annotate(n=Count("*"))
    sql, params = counted.order_by().query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")
        cursor.execute(f"EXPLAIN {sql}", params)
        assert "Index Only Scan using rag_file_status" in str(cursor.fetchall())


def test_the_cache_s_share_is_of_those_that_asked_it() -> None:
    store = StoreFactory()
    log(store, timings_ms={"cache": 1, "total": 1})
    log(store, timings_ms={"cache": 0.1, "sql": 9, "total": 10})
    log(store, timings_ms={"sql": 9, "total": 10})
    assert dashboard(scope=OPERATOR).whole.cache_share == 0.5


def test_cited_files_and_those_never_cited() -> None:
    store = StoreFactory()
    files = [FileFactory(store=store, name=f"f{n}.txt", n_chunks=1) for n in range(3)]
    FileFactory(store=store, name="not searchable.txt", n_chunks=0)
    log(store, kind="ask", answer="a", citations=[cite(files[0]), cite(files[0])])
    log(store, kind="ask", answer="a", citations=[cite(files[1]), cite(files[2], "unknown")])
    figures = dashboard(scope=OPERATOR)
    assert figures.cited == ((files[0].pk, "f0.txt", 2), (files[1].pk, "f1.txt", 1))
    assert figures.never_cited == ((files[2].pk, "f2.txt"),)
    assert figures.n_never_cited == 1


def test_an_editor_s_figures_are_of_the_own_stores() -> None:
    group = GroupFactory()
    own, foreign = StoreFactory(editors=[group]), StoreFactory()
    user = UserFactory(groups=[group], permissions=EDITOR)
    secret = FileFactory(store=foreign, name="secret.txt", n_chunks=1)
    log(own)
    log(foreign, kind="ask", answer="a", citations=[cite(secret)])
    figures = dashboard(scope=scope_of(user))
    assert figures.whole.n_queries == 1
    assert figures.cited == ()
    assert figures.n_never_cited == 0
    shown = page(client_of(user), "index")
    assert "secret" not in shown


def test_the_first_page_draws_its_charts_itself() -> None:
    store = StoreFactory()
    log(store, confidence=0.9)
    log(store, 1, confidence=0.9)
    FileFactory(store=store, name="<b>x</b>", n_chunks=1)
    requeue_files(store=store)
    client = client_of(UserFactory(is_superuser=True))
    shown = page(client, "index")
    assert shown.count('<svg class="desk-chart"') == 3
    assert "http://" not in shown.replace("http://www.w3.org", "")
    assert "<b>x</b>" not in shown
    said = words(shown)
    for part in ("Queries in 14 days 2", "No good match 0 %", "Never cited: 1"):
        assert part in said
    with CaptureQueriesContext(connection) as captured:
        page(client, "index")
    assert len(captured) <= 30


def test_a_search_is_logged_with_how_sure_it_was(
    monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> None:
    use_words_embedder(monkeypatch, settings)
    store, _ = golden_store()
    retrieve(query="warranty of the pump", scope=OPERATOR, stores=[store])
    words_alone = store.retrieval_settings.in_mode("keyword")
    retrieve(query="zzz qqq", scope=OPERATOR, stores=[store], settings=words_alone)
    sure, none = models.QueryLog.objects.order_by("pk")
    assert sure.confidence is not None
    assert sure.confidence > 0.6
    assert (none.confidence, none.chunk_ids) == (None, [])


def test_the_log_is_filtered_by_what_went_wrong() -> None:
    store, other = StoreFactory(), StoreFactory()
    file = FileFactory(store=store)
    log(store, query="doubtful one", confidence=0.1)
    log(store, query="sure one", confidence=0.9)
    log(store, query="wrongly cited", kind="ask", answer="a", citations=[cite(file, "altered")])
    log(store, query="not cited", kind="ask", answer="a")
    log(other, query="nothing found", chunk_ids=[])
    client = client_of(UserFactory(is_superuser=True))
    for chosen, query in (
        ({"quality": "low"}, "doubtful one"),
        ({"quality": "good"}, "sure one"),
        ({"quality": "citation"}, "wrongly cited"),
        ({"quality": "uncited"}, "not cited"),
        ({"hits": "none"}, "nothing found"),
        ({"store": other.pk}, "nothing found"),
    ):
        rows = client.get(at("rag_querylog_changelist", **chosen)).context["cl"].result_list
        assert [row.query for row in rows] == [query], chosen
    assert client.get(at("rag_querylog_changelist", store="x")).status_code == 200


def test_a_trace_shows_hits_citations_and_times_of_what_one_may_read() -> None:
    groups = GroupFactory(), GroupFactory()
    store = StoreFactory(readers=[groups[0]])
    open_file = FileFactory(store=store, name="open.txt")
    closed = FileFactory(store=store, name="closed.txt", restricted=[groups[1]])
    chunk, hidden = publish(open_file, "open words")[0], publish(closed, "hidden words")[0]
    user = UserFactory(groups=[groups[0]], permissions=RIGHTS)
    row = log(
        store,
        kind="ask",
        query="<script>alert(1)</script>",
        user=user,
        answer="An answer [1].",
        chunk_ids=[chunk.pk, hidden.pk, 10**9],
        citations=[cite(open_file), {**cite(closed, "altered"), "quote": "hidden words"}],
        timings_ms={"sql": 4.0, "model": 8.0, "total": 12.5},
    )
    shown = page(client_of(user), "rag_querylog_change", row.pk)
    said = words(shown)
    assert "open words" in said
    assert "hidden words" not in said
    assert "closed.txt" not in said
    assert "gone, or not for you" in said
    assert "verified" in said
    assert "checking" not in said
    assert "chat model 8.0 ms" in said
    assert "<script>alert" not in shown
    assert (
        client_of(UserFactory(permissions=RIGHTS))
        .get(at("rag_querylog_change", row.pk))
        .status_code
        == 302
    )


def test_a_logged_question_becomes_a_golden_one() -> None:
    group = GroupFactory()
    store = StoreFactory(editors=[group])
    chunk = publish(FileFactory(store=store), "the right words")[0]
    foreign = publish(FileFactory(store=StoreFactory(editors=[group])), "others")[0]
    user = UserFactory(groups=[group], permissions=RIGHTS)
    row = log(store, kind="ask", query="What is right?", answer="Wrong.", chunk_ids=[chunk.pk])
    client, address = client_of(user), at("rag_querylog_golden", row.pk)
    assert client.post(address, {"chunk": foreign.pk}).status_code == 404
    assert client.get(address).status_code == 405
    assert client.post(address, {"chunk": chunk.pk}).status_code == 302
    question = store.golden_questions.get()
    assert (question.query, question.origin, question.note) == (
        "What is right?",
        "corrected",
        "Wrong.",
    )
    assert question.targets.get().chunk == chunk
    reader = client_of(UserFactory(permissions=EDITOR, groups=[group]))
    assert reader.post(address, {"chunk": chunk.pk}).status_code == 403


def test_a_bad_answer_waits_for_what_should_have_been_found() -> None:
    group = GroupFactory()
    store = StoreFactory(editors=[group])
    user = UserFactory(groups=[group], permissions=(*RIGHTS, "change_goldenquestion"))
    row = log(store, kind="ask", query="What is right?", answer="Wrong.")
    assert "Bad answer" in page(client_of(user), "rag_querylog_change", row.pk)
    response = client_of(user).post(at("rag_querylog_golden", row.pk))
    question = store.golden_questions.get()
    assert response["Location"] == at("rag_goldenquestion_change", question.pk)
    assert (question.origin, question.note, question.targets.count()) == ("disliked", "Wrong.", 0)
    own = UserFactory(permissions=RIGHTS)
    public = StoreFactory(is_public=True)
    mine = log(public, kind="ask", query="Mine?", answer="No.", user=own)
    assert client_of(own).post(at("rag_querylog_golden", mine.pk)).status_code == 403


def job_of(file: models.File) -> ProcrastinateJob:
    found = ProcrastinateJob.objects.filter(lock=f"file:{file.pk}").order_by("-pk").first()
    assert isinstance(found, ProcrastinateJob)
    return found


def set_status(job: ProcrastinateJob, status: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_jobs SET status = %s WHERE id = %s", [status, job.pk])


def test_waiting_jobs_are_taken_out_and_ended_ones_begun_again() -> None:
    store = StoreFactory()
    files = [FileFactory(store=store, revision=1) for _ in range(3)]
    requeue_files(store=store)
    jobs = [job_of(file) for file in files]
    set_status(jobs[1], "doing")
    assert [job.pk for job in stalled_jobs(jobs=ProcrastinateJob.objects.all())] == [jobs[1].pk]
    assert cancel_jobs(scope=OPERATOR, job_ids=[jobs[0].pk, jobs[1].pk]) == (1, 1)
    files[0].refresh_from_db()
    assert files[0].status == "completed"
    jobs[0].refresh_from_db()
    assert jobs[0].status == "cancelled"
    assert retry_jobs(scope=OPERATOR, job_ids=[job.pk for job in jobs]) == 2
    assert job_of(files[0]).status == "todo"
    jobs[1].refresh_from_db()
    assert (jobs[1].status, jobs[1].attempts) == ("todo", 1)
    files[0].refresh_from_db()
    assert files[0].status == "processing"


def test_jobs_of_foreign_files_are_passed_over() -> None:
    file = FileFactory()
    requeue_files(store=file.store)
    stranger = scope_of(UserFactory())
    job = job_of(file)
    assert cancel_jobs(scope=stranger, job_ids=[job.pk]) == (0, 0)
    set_status(job, "failed")
    assert retry_jobs(scope=stranger, job_ids=[job.pk]) == 0


def test_the_list_of_jobs_tells_the_stalled_and_acts(settings: Any) -> None:
    group = GroupFactory()
    store = StoreFactory(editors=[group])
    file = FileFactory(store=store, revision=1)
    requeue_files(store=store)
    job = job_of(file)
    client = client_of(UserFactory(groups=[group], permissions=EDITOR))
    name = "procrastinate_procrastinatejob_changelist"
    act = {"_selected_action": [job.pk]}
    client.post(at(name), {"action": "cancel", **act})
    assert job_of(file).status == "cancelled"
    client.post(at(name), {"action": "retry", **act})
    again = job_of(file)
    assert (again.status, again.pk != job.pk) == ("todo", True)
    set_status(again, "doing")
    assert "stalled" in words(page(client, name, state="stalled"))
    assert client.get(at(name, state="nonsense")).status_code == 200
    looker = client_of(
        UserFactory(groups=[group], permissions=("view_procrastinatejob", "view_file"))
    )
    looker.post(at(name), {"action": "cancel", **act})
    assert job_of(file).status == "doing"


def test_upkeep_is_listed_only_when_it_is_asked_for() -> None:
    file = FileFactory(name="guide.pdf", revision=1)
    requeue_files(store=file.store)
    app.configure_task("rag.tidy_up", queue="upkeep").defer(timestamp=1)
    client = client_of(UserFactory(is_superuser=True))
    name = "procrastinate_procrastinatejob_changelist"
    shown = page(client, name)
    assert "read and index a file guide.pdf waiting" in words(shown)
    assert f'href="{at("rag_file_change", file.pk)}"' in shown
    assert "upkeep: remove" not in words(shown)
    assert "upkeep: remove what is left over –" in words(page(client, name, upkeep="with"))
    file.store.delete()
    assert "read and index a file –" in words(page(client, name))
