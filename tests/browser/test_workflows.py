"""Main workflows of a knowledge manager, in English and in Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.utils.translation import gettext, override
from playwright.sync_api import Browser, Page, expect

from agents import models as agent_models
from rag import models
from tests.browser.visitor import Visitor, visitor
from tests.edges.flow_desk import FLOW, PROMPTS, SCRIPT
from tests.factories import UserFactory
from tests.integration.agent_world import OPEN
from tests.server_processes import server_process, worker_process

pytestmark = pytest.mark.slow

DOCUMENTS = Path(__file__).resolve().parents[2] / "rag" / "demo" / "documents"


@dataclass(frozen=True)
class Day:
    """A language, a document in it, and what a person of it would type and read."""

    language: str
    store: str
    document: str
    question: str
    quoted: str
    edit: str

    def words(self, text: str) -> str:
        """Return a text of ours as this language has it."""
        with override(self.language):
            return gettext(text)


DAYS = (
    Day(
        "en",
        "Plant room",
        "plant-room-safety-manual.pdf",
        "How long do I ventilate after a UV lamp breaks?",
        "ventilate for at least 25 minutes",
        "Zebra crossings are painted on Mondays.",
    ),
    Day(
        "zh-hans",
        "水培手册",
        "HX-400水培架使用手册.pdf",
        "显示 E21 以后要等多久才能重新启动水泵？",
        "等待 15 分钟让电机冷却",
        "斑马线每周一重新粉刷。",
    ),
)


@pytest.fixture
def url(transactional_db: None) -> Iterator[str]:
    agent_models.Agent.objects.create(name="desk", is_public=True, config=dict(OPEN))
    with worker_process(), server_process() as address:
        yield address


def test_a_working_day(url: str, browser: Browser, tmp_path: Path) -> None:
    for day in DAYS:
        user = UserFactory(is_superuser=True)
        with visitor(browser, url, user, language=day.language) as somebody:
            store = _make_a_store(somebody, day)
            _upload_and_watch(somebody, day, store)
            _edit_a_chunk_and_find_it(somebody, day, store)
            _ask_and_open_a_citation(somebody, day)
            if day.language == "en":
                _write_run_and_decide_a_flow(somebody, tmp_path / "script.yaml")
            assert somebody.odd == []


def _make_a_store(somebody: Visitor, day: Day) -> models.Store:
    somebody.go("/admin/rag/store/add/")
    somebody.page.fill("[name=name]", day.store)
    somebody.page.click("[name=_save]")
    somebody.page.wait_for_url(re.compile("/admin/rag/store/(?!add)"))
    store = models.Store.objects.get(name=day.store)
    assert (store.max_tokens_per_chunk, store.max_overlap_tokens) == (200, 20)
    return store


def _upload_and_watch(somebody: Visitor, day: Day, store: models.Store) -> None:
    page = somebody.page
    somebody.go(f"/admin/rag/store/{store.pk}/upload/")
    assert page.locator("html").get_attribute("lang") == day.language
    page.set_input_files("[name=files]", DOCUMENTS / day.document)
    if page.locator("#desk-upload [type=submit]").is_visible():
        page.click("#desk-upload [type=submit]")
    # A link once the server has it: leaving before would end the upload.
    expect(page.locator("#desk-results a")).to_contain_text(day.document)
    somebody.go(f"/admin/rag/file/?store={store.pk}")
    # The page's own script tells when the worker is done.
    expect(page.locator(".desk-status").first).to_contain_text(day.words("completed"))
    file = models.File.objects.get(store=store)
    assert file.n_chunks > 3 and page.locator(".field-chunks").first.inner_text() == str(
        file.n_chunks
    )


def _edit_a_chunk_and_find_it(somebody: Visitor, day: Day, store: models.Store) -> None:
    page = somebody.page
    # Not one that the question is about.
    chunk = models.Chunk.objects.filter(store=store, is_live=True).exclude(
        text__contains=day.quoted
    )[0]
    somebody.go(f"/admin/rag/chunk/{chunk.pk}/change/")
    page.fill(".chunk-form [name=text]", day.edit)
    page.click(".chunk-form [type=submit]")
    expect(page.locator("body")).to_contain_text(
        day.words("The text was saved and is found by its new words from now on.")
    )
    somebody.go(f"/admin/rag/store/{store.pk}/search/")
    page.fill("[name=q]", day.edit)
    page.press("[name=q]", "Enter")
    expect(page.locator(".desk-hit").first).to_contain_text(day.edit[:6])
    assert page.locator(".desk-hit mark").count() > 0
    _compare_and_keep_a_golden_question(somebody, day, store)


def _compare_and_keep_a_golden_question(somebody: Visitor, day: Day, store: models.Store) -> None:
    page = somebody.page
    wanted = day.words("Add as expected result")
    page.locator(".desk-hit").first.get_by_role("button", name=wanted).click()
    told = day.words("Kept as a golden question: this chunk must be found.")
    expect(page.locator("body")).to_contain_text(told)
    somebody.go("/admin/rag/goldenquestion/")
    expect(page.locator("#result_list")).to_contain_text(day.edit)
    somebody.go(f"/admin/rag/store/{store.pk}/search/?q={quote(day.edit)}&compare=1")
    assert page.locator(".desk-two").count() == 2


def _ask_and_open_a_citation(somebody: Visitor, day: Day) -> None:
    page = somebody.page
    somebody.go("/chat")
    page.select_option("#store", label=day.store)
    page.fill("#message", day.question)
    page.press("#message", "Enter")
    answer = page.locator(".turn.assistant")
    expect(answer).to_contain_text(day.quoted)
    expect(answer.locator(".tools")).to_be_visible()
    expect(answer.locator(".citations")).to_contain_text(day.words("verified"))
    # By keyboard alone, as everything else here.
    answer.locator(".cite").first.press("Enter")
    expect(page.locator("#quote-mark")).to_contain_text(day.quoted)
    picture = page.locator("#evidence .sheet img")
    expect(picture).to_be_visible()
    page.wait_for_function("() => document.querySelector('.sheet img').naturalWidth > 500")
    assert page.locator("#evidence .box").count() >= 1
    page.keyboard.press("Escape")
    expect(page.locator("#evidence")).to_be_hidden()
    assert page.evaluate("() => document.activeElement.className").startswith("cite")


def _write_run_and_decide_a_flow(somebody: Visitor, script: Path) -> None:
    page = somebody.page
    script.write_text(SCRIPT, encoding="utf-8")
    somebody.go("/admin/agents/flow/add/")
    _write_yaml(page, FLOW.replace("human_review", "nope"))
    for number, (path, text) in enumerate(PROMPTS.items()):
        page.locator("[name=path]").nth(number).fill(path)
        page.locator("[name=text]").nth(number).fill(text)
    page.click("[value=activate]")
    expect(page.locator("[role=alert]:visible")).to_contain_text("line 4, column 20")
    page.click("[data-line]")
    expect(page.locator("#flow-code .cm-activeLine")).to_contain_text("nope")
    _write_yaml(page, FLOW)
    page.click("[value=activate]")
    expect(page.locator("body")).to_contain_text("Version 1 runs from now on.")
    flow: Any = agent_models.Flow.objects.get(name="desk")
    somebody.go(f"/admin/agents/flow/{flow.pk}/run/")
    page.fill("[name=message]", "There is danger")
    page.fill("[name=model]", f"scripted:{script}")
    page.click("#flow-start [type=submit]")
    page.click("[data-decision=send]")
    expect(page.locator("#flow-state")).to_contain_text("Take the stairs, not the lift.")
    assert page.locator(".graph .graph-taken").count() == 4
    page.locator("details[data-visit] > summary").last.click()
    page.locator("[data-verb=replay]").last.click()
    expect(page.locator("body")).to_contain_text("the run that it repeats")


def _write_yaml(page: Page, text: str) -> None:
    page.locator("#flow-code .cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)
