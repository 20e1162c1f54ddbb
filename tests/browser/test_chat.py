"""Chat page: slow, hostile and interrupted answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, expect

from agents import models
from tests.browser.visitor import Visitor, visitor
from tests.browser.widget_site import ask_on_another_site, shop_of
from tests.cuttable_proxy import CuttableProxy, cuttable_proxy
from tests.factories import FileFactory, StoreFactory, UserFactory, publish
from tests.integration.agent_world import CITED, OPEN, QUOTE
from tests.server_processes import server_process

pytestmark = pytest.mark.slow

WORDS = " ".join(f"word{number}" for number in range(40))
HOSTILE = """\
# Head **bold**

<script>window.owned = 1</script><img src=x onerror="window.owned = 1">
[click](javascript:window.owned=1) [data](data:text/html,<script>window.owned=1</script>)
![picture](https://evil.example/p.png) [good](https://example.org/a_(b)) `<b>code</b>`

| a | b |
|---|---|
| 1 | <u>2</u> |

1. one
   - inner *soft*
2. two [9]

```html
<script>window.owned = 1</script>
```
"""
SCRIPT = {
    "answers": [
        {"contains": "is broken", "error": "it is down"},
        {"contains": "hostile", "answer": HOSTILE},
        {"contains": "invent", "answer": f"{CITED} The president of Mars owns it."},
        {"contains": "hangs", "answer": WORDS, "delay_s": 60},
        {"contains": "slowly", "answer": WORDS, "delay_s": 2.5},
        {
            "contains": "wrongly",
            "answer": '<cite doc_id="doc_01" quote="The pump is never serviced at all by anybody.">Never.</cite>',
        },
    ],
    "default": CITED,
}


@dataclass
class Talk:
    """A visitor on the chat page."""

    somebody: Visitor
    user: Any
    line: CuttableProxy

    def ask(self, text: str) -> Any:
        page = self.somebody.page
        n = page.locator(".turn.assistant").count()
        page.fill("#message", text)
        page.press("#message", "Enter")
        answer = page.locator(".turn.assistant").nth(n)
        expect(answer).to_be_visible()
        return answer


@pytest.fixture
def talk(transactional_db: None, browser: Browser, tmp_path: Path) -> Iterator[Talk]:
    script = tmp_path / "script.yaml"
    script.write_text(yaml.safe_dump(SCRIPT), encoding="utf-8")
    user = UserFactory(is_staff=True)
    store = StoreFactory(owner=user, slug="manuals", name="Manuals")
    publish(FileFactory(store=store, name="<script>alert(1).txt"), QUOTE, "The filter costs 45.")
    models.Agent.objects.create(
        name="a", owner=user, config={**OPEN, "history_turns": 0, "summary_tokens": 0}
    )
    with (
        server_process(RAG_CHAT_MODEL=f"scripted:{script}") as server,
        cuttable_proxy(server) as (line, url),
        visitor(browser, url, user) as somebody,
    ):
        yield Talk(somebody, user, line)


def test_a_conversation(talk: Talk, browser: Browser) -> None:
    _markdown_is_shown_and_starts_nothing(talk)
    _an_altered_quote_is_told_apart(talk)
    _statements_without_a_source_are_marked(talk)
    _a_failure_is_a_sentence(talk)
    _a_lost_connection_is_taken_up_again(talk)
    _a_stop_keeps_what_was_written(talk)
    _answers_have_versions_and_questions_too(talk)
    _an_opinion_is_kept(talk)
    _a_conversation_is_found_again_renamed_and_deleted(talk)
    _it_fits_a_phone_and_the_dark(talk)
    assert talk.somebody.odd == []
    agent = models.Agent.objects.create(
        name="open", is_public=True, config={**OPEN, "history_turns": 0}
    )
    store = StoreFactory(slug="public", is_public=True)
    publish(FileFactory(store=store, name="pump.txt"), QUOTE)
    widget = models.Widget.objects.create(agent=agent, name="Pump help", colour="#ffd400")
    with shop_of(widget, talk.somebody.url) as shop:
        ask_on_another_site(shop, browser)


def _markdown_is_shown_and_starts_nothing(talk: Talk) -> None:
    page = talk.somebody.page
    answer = talk.ask("Be hostile about the pump")
    expect(answer.locator(".tools")).to_be_visible()
    body = answer.locator(".body")
    assert page.evaluate("() => window.owned") is None
    assert body.locator("script, img, u, b").count() == 0
    assert body.locator("h3 strong").inner_text() == "bold"
    # What the row claims stands in no source.
    assert body.locator("td").all_inner_texts() == ["1", "2 not found in the sources"]
    assert body.locator("ol > li").count() == 2 and body.locator("ol ul em").count() == 1
    links = [link.get_attribute("href") for link in body.locator("a").all()]
    assert links == ["https://evil.example/p.png", "https://example.org/a_(b)"]
    assert body.locator("p code").inner_text() == "<b>code</b>"
    # A mark of the model's own that leads nowhere is shown as one.
    assert body.locator(".cite").count() == body.locator(".cite.unknown").count() == 1
    told = page.evaluate(
        """async (text) => {
          const { render } = await import("/static/agents/chat/markdown.js");
          const box = document.createElement("div");
          box.append(render(text));
          return box.innerHTML;
        }""",
        "no [9]<br>yes\n\n> a\n> > b\n\n**open and `x\n\n---\n\\*flat\\* ~~gone~~ " + "*" * 2000,
    )
    # While it is being written every beginning of a text is shown once.
    assert page.evaluate(
        """async (text) => {
          const { render } = await import("/static/agents/chat/markdown.js");
          for (let end = 0; end <= text.length; end += 1) render(text.slice(0, end));
          return true;
        }""",
        HOSTILE,
    )
    assert told.startswith(
        "<p>no [9]<br>yes</p><blockquote><p>a</p><blockquote><p>b</p></blockquote>"
    )
    assert "<p>**open and `x</p><hr>" in told and "*flat* <s>gone</s>" in told


def _an_altered_quote_is_told_apart(talk: Talk) -> None:
    page = talk.somebody.page
    answer = talk.ask("How is the pump serviced? Say it wrongly")
    mark = answer.locator(".cite").first
    expect(mark).to_be_visible()
    verdict = (mark.get_attribute("class") or "").split()[-1]
    assert verdict in ("altered", "unknown")
    mark.click()
    expect(page.locator("#evidence .verdict")).to_have_class(re.compile(verdict))
    page.keyboard.press("Escape")
    answer.locator(".sources summary").click()
    answer.locator(".sources .entry").first.click()
    expect(page.locator("#quote-mark")).to_contain_text("pump")
    assert page.locator("#evidence-title").inner_text() == "<script>alert(1).txt"
    page.click("#close-evidence")


def _statements_without_a_source_are_marked(talk: Talk) -> None:
    answer = talk.ask("What would you invent of the pump?")
    expect(answer.locator(".grounding")).to_have_text("1 of 2 statements found in the sources")
    expect(answer.locator(".statement")).to_have_text("not found in the sources")
    expect(answer.locator(".body")).to_contain_text("owns it. not found")
    talk.somebody.page.reload()
    again = talk.somebody.page.locator(".turn.assistant").last
    expect(again.locator(".statement.unsupported")).to_be_visible()


def _a_failure_is_a_sentence(talk: Talk) -> None:
    answer = talk.ask("The pump is broken")
    expect(answer.locator(".problem")).to_contain_text("it is down")
    assert answer.locator(".body").inner_text().strip() == ""


def _a_lost_connection_is_taken_up_again(talk: Talk) -> None:
    page = talk.somebody.page
    answer = talk.ask("Tell me slowly about the pump")
    expect(answer.locator(".body")).to_contain_text("word3")
    resumed: list[str] = []
    page.on("request", lambda one: resumed.append(one.headers.get("last-event-id", "")))
    talk.line.cut()
    expect(answer.locator(".tools")).to_be_visible()
    assert answer.locator(".body").inner_text().strip() == f"{WORDS} not found in the sources"
    # Not from its beginning: behind the last event that was seen.
    assert any(number and int(number) > 3 for number in resumed)
    # Whoever loads the page anew in the middle sees the answer go on, too.
    answer.get_by_role("button", name="Regenerate").click()
    expect(page.locator(".turn.assistant").last.locator(".body")).to_contain_text("word3")
    page.reload()
    expect(page.locator(".turn.assistant").last.locator(".tools")).to_contain_text("2/2")
    assert page.locator(".turn.assistant .body").last.inner_text().strip().startswith(WORDS)


def _a_stop_keeps_what_was_written(talk: Talk) -> None:
    page = talk.somebody.page
    page.click("#new-session")
    answer = talk.ask("The pump hangs")
    expect(page.locator("#stop")).to_be_visible()
    page.wait_for_timeout(300)
    page.click("#stop")
    expect(answer.locator(".notice")).to_contain_text("Stopped")
    expect(page.locator("#send")).to_be_visible()


def _answers_have_versions_and_questions_too(talk: Talk) -> None:
    page = talk.somebody.page
    answer = talk.ask("How often is the pump serviced?")
    expect(answer.locator(".citations")).to_contain_text("verified")
    n = page.locator(".turn").count()
    answer.get_by_role("button", name="Regenerate").click()
    last = page.locator(".turn.assistant").last
    expect(last.locator(".tools")).to_contain_text("2/2")
    assert page.locator(".turn").count() == n
    last.get_by_role("button", name="The version before").click()
    expect(page.locator(".turn.assistant").last.locator(".tools")).to_contain_text("1/2")
    page.locator(".turn.user").last.get_by_role("button", name="Edit question").click()
    page.fill("#message", "How often is the filter replaced?")
    page.press("#message", "Enter")
    question = page.locator(".turn.user").last
    expect(question.locator(".tools")).to_contain_text("2/2")
    question.get_by_role("button", name="The version before").click()
    expect(page.locator(".turn.user").last).to_contain_text("How often is the pump serviced?")
    # With the answer that had followed it.
    assert page.locator(".turn").count() == n


def _an_opinion_is_kept(talk: Talk) -> None:
    answer = talk.somebody.page.locator(".turn.assistant").last
    answer.get_by_role("button", name="Unhelpful answer").click()
    answer.locator(".comment textarea").fill("Too short")
    answer.get_by_role("button", name="Save").click()
    expect(answer).to_contain_text("Thank you")
    row = models.Message.objects.get(key=answer.get_attribute("data-key") or "")
    assert (row.feedback, row.feedback_comment) == (-1, "Too short")


def _a_conversation_is_found_again_renamed_and_deleted(talk: Talk) -> None:
    page = talk.somebody.page
    page.click("#new-session")
    expect(page.locator("#welcome")).to_be_visible()
    entry = page.locator("#session-list li").first
    page.once("dialog", lambda dialog: dialog.accept("About pumps"))
    entry.get_by_role("button", name="Rename").click()
    expect(page.locator("#session-list")).to_contain_text("About pumps")
    page.click("#session-list a")
    expect(page.locator("#title")).to_have_text("About pumps")
    page.wait_for_selector(".turn.assistant")
    page.once("dialog", lambda dialog: dialog.accept())
    page.locator("#session-list li").first.get_by_role("button", name="Delete").click()
    expect(page.locator("#session-list")).not_to_contain_text("About pumps")
    assert models.Session.objects.filter(user=talk.user).count() == 1


def _it_fits_a_phone_and_the_dark(talk: Talk) -> None:
    page = talk.somebody.page
    page.set_viewport_size({"width": 375, "height": 700})
    page.emulate_media(color_scheme="dark")
    answer = talk.ask("How often is the pump serviced?")
    expect(answer.locator(".tools")).to_be_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    assert (
        page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(22, 22, 27)"
    )
    answer.locator(".cite").first.click()
    expect(page.locator("#quote-mark")).to_be_visible()
    box = page.locator("#evidence").bounding_box()
    assert box and box["width"] == 375
    page.click("#close-evidence")
    page.click("#show-sessions")
    expect(page.locator("#session-list")).to_be_visible()


def test_a_conversation_begins_with_a_suggestion_and_is_exported(talk: Talk) -> None:
    page = talk.somebody.page
    page.reload()
    page.locator("#suggestions button").first.click()
    expect(page.locator(".turn.assistant .cite").first).to_be_visible()
    page.fill("#find-session", "no such words")
    expect(page.locator("#session-list li")).to_have_text("No conversation holds these words.")
    with page.expect_download() as download:
        page.click("#export")
    text = Path(download.value.path()).read_text(encoding="utf-8")
    assert download.value.suggested_filename.endswith(".md")
    assert "[^2-1]" in text and f"“{QUOTE}”" in text
