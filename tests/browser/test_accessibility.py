"""Accessibility and concurrency: keyboard, contrast, screen reader, phone, two users at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from playwright.sync_api import Browser, Page, expect
from procrastinate.contrib.django.models import ProcrastinateJob

from agents import models as agent_models
from rag import models
from rag.core.access import Scope
from rag.services.evaluation.runs import evaluate_store
from rag.services.search.retrieval import retrieve
from tests.browser.visitor import Visitor, visitor
from tests.factories import FileFactory, StoreFactory, UserFactory, publish
from tests.integration.agent_world import OPEN
from tests.integration.golden_world import golden
from tests.server_processes import server_process

pytestmark = pytest.mark.slow

# What axe-core finds that keeps people out: impact, rule, first element, why.
AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
VIOLATIONS = """async () => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations
    .filter((one) => ["serious", "critical"].includes(one.impact))
    .map((one) => [one.impact, one.id, one.nodes[0].html.slice(0, 120), one.nodes[0].any[0]?.message]);
}"""
READABILITY = Path(__file__).with_name("readability.js").read_text(encoding="utf-8")
PHONE: Any = {"width": 390, "height": 780}
TEXTS = ("The pump is serviced yearly.", "水泵的保修期为两年。", "The valve closes by itself.")


@dataclass
class Desk:
    """A served store with one file of three chunks, and who may do all."""

    url: str
    user: Any
    store: models.Store
    chunk: models.Chunk


@pytest.fixture
def desk(transactional_db: None) -> Iterator[Desk]:
    user = UserFactory(is_superuser=True, username="anna")
    store = StoreFactory(owner=user, name="Manuals", slug="manuals")
    chunk, *_ = publish(FileFactory(store=store, name="pump.txt"), *TEXTS)
    golden(store, "How often is the pump serviced?", [chunk])
    agent_models.Agent.objects.create(name="desk", is_public=True, config=dict(OPEN))
    with server_process() as url:
        yield Desk(url, user, store, chunk)


def pages(desk: Desk) -> list[str]:
    store = f"/admin/rag/store/{desk.store.pk}"
    return [
        "/admin/",
        "/admin/rag/store/add/",
        f"{store}/change/",
        f"{store}/upload/",
        f"{store}/search/?q=pump&compare=1",
        f"/admin/rag/chunk/store/{desk.store.pk}/preview/",
        "/admin/rag/file/",
        "/admin/rag/connection/add/",
        "/admin/rag/connection/add/?connector=web",
        f"/admin/rag/chunk/{desk.chunk.pk}/change/",
        "/admin/rag/goldenquestion/add/",
        "/admin/rag/goldenquestion/import/",
        "/admin/rag/querylog/",
        "/admin/agents/agent/add/",
        "/admin/agents/flow/add/",
        "/admin/agents/widget/add/",
        "/admin/rag/webhook/add/",
        "/chat",
    ]


def test_a_walk_through_the_desk(desk: Desk, browser: Browser, tmp_path: Path) -> None:
    with visitor(browser, desk.url, desk.user) as somebody:
        _all_can_be_read_and_named(somebody, pages(desk)[1::2])
        _a_double_click_does_it_once(somebody, desk)
        _an_upload_is_told(somebody, desk, tmp_path)
        _back_leads_to_the_list_as_it_was(somebody, desk)
        _who_saves_second_is_told(somebody, desk, browser)
        _an_answer_is_spoken_and_the_focus_stays(somebody)
        _the_quote_covers_a_phone(somebody)
        assert somebody.odd == []
    look = {"language": "zh-hans", "color_scheme": "dark", "viewport": PHONE}
    with visitor(browser, desk.url, desk.user, **look) as somebody:
        _all_can_be_read_and_named(somebody, pages(desk)[::2])
    with visitor(browser, desk.url, desk.user, color_scheme="dark") as somebody:
        _what_is_refused_can_be_read(somebody, desk, tmp_path)
        _a_bulk_action_says_what_it_will_do_and_its_job_is_cancelled(somebody, desk)
        _a_question_is_traced_and_a_run_drawn(somebody, desk)
        assert somebody.odd == []
    stranger = UserFactory(is_staff=True)
    stranger.user_permissions.set(Permission.objects.filter(content_type__app_label="rag"))
    with visitor(browser, desk.url, stranger) as somebody:
        _a_stranger_sees_nothing(somebody, desk)


def _all_can_be_read_and_named(somebody: Visitor, paths: list[str]) -> None:
    for path in paths:
        somebody.go(path)
        found = somebody.page.evaluate(READABILITY)
        assert found == {"pale": [], "nameless": [], "wide": 0}, path
        somebody.page.evaluate(AXE)
        assert somebody.page.evaluate(VIOLATIONS) == [], path


def _what_is_refused_can_be_read(somebody: Visitor, desk: Desk, folder: Path) -> None:
    page = somebody.page
    (folder / "q.csv").write_text("question,grade\nbad,9\n", encoding="utf-8")
    somebody.go("/admin/rag/goldenquestion/import/")
    page.select_option("[name=store]", label="Manuals")
    page.set_input_files("[name=file]", folder / "q.csv")
    page.click(".desk-search [type=submit]")
    row = page.locator(".desk-table tr")
    expect(row.locator("th")).to_have_text("2")
    expect(row.locator("td")).to_contain_text("The grade is 9.")
    assert page.locator("link[href*='insight']").count() == 1
    page.wait_for_load_state("networkidle")
    somebody.go("/admin/rag/store/add/")
    page.fill("[name=max_tokens_per_chunk]", "1")
    page.click("[name=_save]")
    expect(page.locator(".errorlist").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert page.evaluate(READABILITY) == {"pale": [], "nameless": [], "wide": 0}
    somebody.go("/admin/rag/file/")
    page.check("#result_list tbody input[type=checkbox]")
    expect(page.locator(".action-counter")).to_be_visible()
    assert page.evaluate(READABILITY) == {"pale": [], "nameless": [], "wide": 0}


def _who_saves_second_is_told(somebody: Visitor, desk: Desk, browser: Browser) -> None:
    other = UserFactory(is_superuser=True, username="bert")
    address, page = f"/admin/rag/store/{desk.store.pk}/change/", somebody.page
    somebody.go(address)
    with visitor(browser, desk.url, other) as bert:
        bert.go(address)
        bert.page.fill("[name=max_tokens_per_chunk]", "300")
        bert.page.click("[name=_continue]")
        expect(bert.page.locator("body")).to_contain_text("was changed successfully")
    page.fill("[name=display_name]", "Anna's")
    page.click("[name=_continue]")
    expect(page.locator("body")).to_contain_text("bert changed this meanwhile")
    assert page.input_value("[name=max_tokens_per_chunk]") == "300"
    page.click("[name=_continue]")
    expect(page.locator("body")).to_contain_text("was changed successfully")
    desk.store.refresh_from_db()
    assert (desk.store.max_tokens_per_chunk, desk.store.display_name) == (300, "Anna's")


def focus_of(page: Page) -> str:
    """Return what has the keyboard: its id, else its words."""
    found: str = page.evaluate(
        "() => document.activeElement.id || document.activeElement.title || document.activeElement.textContent"
    )
    return found.strip()


def press(page: Page, selector: str, key: str = "Enter") -> None:
    """Go to an element as the Tab key does, and press a key there."""
    page.keyboard.press("Shift")
    page.locator(selector).last.focus()
    page.keyboard.press(key)


def _a_double_click_does_it_once(somebody: Visitor, desk: Desk) -> None:
    page = somebody.page
    somebody.go(f"/admin/rag/chunk/{desk.chunk.pk}/change/")
    page.fill(".chunk-form [name=text]", "The pump is serviced twice a year.")
    page.dblclick(".chunk-form [type=submit]")
    expect(page.locator("body")).to_contain_text("The text was saved")
    desk.chunk.refresh_from_db()
    assert desk.chunk.revision == 2
    somebody.go(f"/admin/rag/chunk/file/{desk.chunk.file_id}/add/?after={desk.chunk.pk}")
    page.fill(".chunk-form [name=text]", "The pump has a spare.")
    page.dblclick(".chunk-form [type=submit]")
    expect(page.locator("body")).to_contain_text("The chunk was added")
    assert models.Chunk.objects.filter(text="The pump has a spare.").count() == 1


def _an_upload_is_told(somebody: Visitor, desk: Desk, folder: Path) -> None:
    page = somebody.page
    (folder / "late.txt").write_text("A late page.", encoding="utf-8")
    somebody.go(f"/admin/rag/store/{desk.store.pk}/upload/")
    page.keyboard.press("Shift")
    page.locator("[name=files]").focus()
    assert (
        page.evaluate("() => getComputedStyle(document.querySelector('.desk-drop')).outlineStyle")
        != "none"
    )
    page.set_input_files("[name=files]", folder / "late.txt")
    expect(page.locator("#desk-results a")).to_contain_text("late.txt")
    expect(page.locator("#desk-heard[role=status]")).to_have_text(
        "late.txt: taken, waiting for indexing"
    )


def _back_leads_to_the_list_as_it_was(somebody: Visitor, desk: Desk) -> None:
    page = somebody.page
    address = f"/admin/rag/chunk/?file={desk.chunk.file_id}&q=pump"
    somebody.go(address)
    press(page, "#result_list tbody tr:first-child th a")
    page.wait_for_url(re.compile("/change/"))
    page.locator(".chunk-form [name=text]").press("End")
    page.keyboard.type(" Always.")
    press(page, ".chunk-form [type=submit]")
    expect(page.locator("body")).to_contain_text("The text was saved")
    way = page.locator("a", has=page.get_by_text("arrow_back")).get_attribute("href") or ""
    assert "q=pump" in way and f"file={desk.chunk.file_id}" in way
    somebody.go(address)
    page.click("#result_list tbody tr:first-child th a")
    page.wait_for_url(re.compile("/change/"))
    page.go_back()
    assert page.url.endswith(address)


def _an_answer_is_spoken_and_the_focus_stays(somebody: Visitor) -> None:
    page = somebody.page
    somebody.go("/chat")
    page.wait_for_selector("body[data-ready]")
    assert focus_of(page) == "message"
    page.keyboard.type("Does the valve close by itself?")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    # The button gives way to the one that stops, and the keyboard must not fall off the page.
    expect(page.locator(".turn.assistant .tools")).to_be_visible()
    assert focus_of(page) == "message"
    expect(page.locator("#heard[aria-live=polite]")).to_contain_text("The valve closes by itself.")
    press(page, ".turn.assistant .tools button[title='Helpful answer']")
    expect(page.locator(".comment textarea")).to_be_focused()
    page.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(page.locator(".turn.assistant")).to_contain_text("Thank you")
    assert page.evaluate("() => document.activeElement !== document.body")
    page.once("dialog", lambda dialog: dialog.accept("About valves"))
    press(page, "#session-list li button[title='Rename']")
    expect(page.locator("#session-list")).to_contain_text("About valves")
    assert focus_of(page) == "Rename"


def _the_quote_covers_a_phone(somebody: Visitor) -> None:
    page = somebody.page
    page.set_viewport_size(PHONE)
    press(page, "#show-sessions")
    assert focus_of(page) == "new-session"
    page.keyboard.press("Escape")
    assert focus_of(page) == "show-sessions"
    assert page.get_attribute("#show-sessions", "aria-expanded") == "false"
    press(page, ".cite")
    expect(page.locator("#quote-mark")).to_be_visible()
    for _ in range(5):
        page.keyboard.press("Tab")
        assert page.evaluate(
            "() => document.activeElement === document.body || Boolean(document.activeElement.closest('#evidence'))"
        )
    page.keyboard.press("Escape")
    assert page.evaluate("() => document.activeElement.className").startswith("cite")


def _a_bulk_action_says_what_it_will_do_and_its_job_is_cancelled(
    somebody: Visitor, desk: Desk
) -> None:
    page = somebody.page

    def choose(address: str, action: str) -> None:
        somebody.go(address)
        page.locator("#result_list .action-select").first.check()
        page.select_option("[name=action]", action)
        page.locator("button[name=index]").click()

    choose(f"/admin/rag/file/?q=pump.txt&store={desk.store.pk}", "retry")
    expect(page.locator("form.desk-card")).to_contain_text("pump.txt")
    assert not jobs().exists()
    page.click("form.desk-card [type=submit]")
    expect(page.locator("body")).to_contain_text("queued")
    assert jobs().get().status == "todo"
    choose("/admin/procrastinate/procrastinatejob/?q=pump", "cancel")
    expect(page.locator("body")).to_contain_text("1 job")
    assert jobs().get().status == "cancelled"


def jobs() -> Any:
    """Return the indexing of the store's first file, waiting or not."""
    return ProcrastinateJob.objects.filter(args__file_id=models.File.objects.earliest("pk").pk)


def _a_stranger_sees_nothing(somebody: Visitor, desk: Desk) -> None:
    page = somebody.page
    for rows in ("store", "file", "chunk", "querylog", "goldenquestion"):
        somebody.go(f"/admin/rag/{rows}/")
        assert page.locator("#result_list tbody tr").count() == 0, rows
    for address in (f"store/{desk.store.pk}/search/?q=pump", f"chunk/{desk.chunk.pk}/change/"):
        page.goto(f"{somebody.url}/admin/rag/{address}")
        assert "pump" not in page.locator("body").inner_text()


def _a_question_is_traced_and_a_run_drawn(somebody: Visitor, desk: Desk) -> None:
    page = somebody.page
    # By words alone: the question needs no model.
    words = desk.store.retrieval_settings.but(mode="keyword", top_k=3)
    retrieve(query="pump serviced", scope=Scope.operator(), stores=[desk.store], settings=words)
    somebody.go("/admin/rag/querylog/?q=serviced")
    page.click("#result_list tbody th a")
    page.wait_for_url(re.compile("/querylog/.*/change/"))
    expect(page.locator("body")).to_contain_text("pump.txt")
    before, after = (evaluate_store(store=desk.store, settings=words) for _ in range(2))
    somebody.go(f"/admin/rag/evaluationrun/?store={desk.store.pk}")
    expect(page.locator("svg.desk-chart").first).to_be_visible()
    somebody.go(f"/admin/rag/evaluationrun/{after.pk}/compare/?before={before.pk}")
    expect(page.locator("body")).to_contain_text("0 better, 0 worse, 1 the same")
    somebody.go(f"/admin/rag/file/{desk.chunk.file_id}/text/")
    expect(page.locator("body")).to_contain_text("serviced")
