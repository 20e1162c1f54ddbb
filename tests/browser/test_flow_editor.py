"""Flow editor in the browser: one text on two sides, errors in place, undo, drafts, two tabs, Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from agents import models
from agents.flows.definition.archive import FlowFiles
from agents.flows.versions.versions import activate_version, save_flow_version
from rag.services.access.api_keys import scope_of
from tests.browser.visitor import Visitor, visitor
from tests.edges.flow_desk import PROMPTS
from tests.factories import UserFactory
from tests.server_processes import server_process

FLOW = """\
# Whom it is for: the desk.
name: desk
nodes:
  # It comes first.
  - name:  judge   # by its risk
    type: agent
    config: {prompt: judge.md}

  - {name: answer, type: agent, config: {prompt: answer.md}}
edges:
  - {from: judge, to: answer}
  - {from: answer, to: END}   # the end
entry_node: judge
inputs: {region: where}
"""
EDITS = """async (edits) => {
  const { applyEdit } = await import("/static/agents/editor/flow_text.js");
  return edits.map(([text, edit]) => applyEdit(text, edit));
}"""
PATHS = """async (texts) => {
  const { pathAt } = await import("/static/agents/editor/flow_path.js");
  return texts.map((text) => pathAt(text, text.length)).map((one) => one && [one.steps.map((step) => step.key ?? "-").join("/"), one.word, one.isKey]);
}"""


@pytest.fixture
def desk(transactional_db: None) -> Iterator[tuple[str, Any, models.Flow]]:
    owner = UserFactory(is_superuser=True)
    scope = scope_of(owner)
    version = save_flow_version(files=FlowFiles(FLOW, PROMPTS), scope=scope)
    activate_version(version=version, scope=scope)
    with server_process() as url:
        yield url, owner, version.flow


def open_editor(somebody: Visitor, flow: models.Flow) -> Page:
    somebody.go(f"/admin/agents/flow/{flow.pk}/edit/")
    somebody.page.wait_for_selector("body[data-flow-ready]")
    return somebody.page


def text_of(page: Page) -> str:
    return str(page.input_value("#flow-yaml"))


def node(page: Page, name: str) -> Locator:
    return page.locator(f".react-flow__node[data-id={name}]")


def write(page: Page, text: str) -> None:
    """Put a text in place of all by the keyboard."""
    page.locator("#flow-code .cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def shows(page: Page, *parts: str) -> None:
    """Wait until the text, which the form would send, has all parts."""
    for part in parts:
        expect(page.locator("#flow-yaml")).to_have_value(re.compile(re.escape(part)))


@pytest.mark.slow
def test_yaml_and_canvas_are_one_text(browser: Browser, desk: tuple[str, Any, models.Flow]) -> None:
    url, owner, flow = desk
    with visitor(browser, url, owner) as somebody:
        page = open_editor(somebody, flow)
        expect(page.locator(".react-flow__node")).to_have_count(4)
        keeps_the_writer_s_lines(page)
        finds_its_place(page)
        typed_yaml_is_on_the_canvas(page)
        the_canvas_writes_yaml(page)
        a_reload_offers_the_draft(somebody, flow)
        the_second_tab_is_refused(somebody, flow)
        assert somebody.odd == []
    with visitor(
        browser, url, owner, language="zh-hans", viewport={"width": 390, "height": 780}
    ) as somebody:
        page = open_editor(somebody, flow)
        expect(page.get_by_text("添加节点", exact=True)).to_be_visible()
        expect(node(page, "judge")).to_contain_text("模型")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        assert somebody.odd == []


def keeps_the_writer_s_lines(page: Page) -> None:
    edits = [
        {"kind": "set", "node": "judge", "path": ["config", "context_tokens"], "value": 500},
        {"kind": "addNode", "node": {"name": "yes", "type": "agent"}, "after": "judge"},
        {"kind": "rename", "from": "judge", "to": "weigh"},
        {"kind": "move", "places": {"answer": {"x": 1.4, "y": 2}}},
        {"kind": "remove", "nodes": ["answer"]},
    ]
    set_, added, renamed, moved, removed = page.evaluate(EDITS, [[FLOW, one] for one in edits])
    assert set_ == FLOW.replace("judge.md}", "judge.md, context_tokens: 500}")
    # In YAML 1.1, which the server reads, a bare yes is no text.
    assert '  - name: "yes"\n    type: agent\n' in added and '{from: judge, to: "yes"}' in added
    assert "name:  judge   # by its risk" in added and "# the end" in added
    assert renamed == (
        FLOW.replace("name:  judge   #", "name: weigh #")
        .replace("from: judge", "from: weigh")
        .replace("node: judge", "node: weigh")
    )
    assert moved == f"{FLOW}\nlayout:\n  answer: [1, 2]\n"
    assert "answer" not in removed and "# It comes first." in removed


def finds_its_place(page: Page) -> None:
    told = page.evaluate(
        PATHS,
        [
            "nodes:\n  - name: a\n    type: ag",
            "nodes:\n  - name: a\n    config:\n      pr",
            "nodes:\n  - {name: a, config: {model: {prov",
            "edges:\n  - from: a\n    to: [b, ",
            "nodes:\n  - name: a\n    config:\n      message: |\n        text: her",
        ],
    )
    assert told == [
        ["nodes/-/type", "ag", False],
        ["nodes/-/config", "pr", True],
        ["nodes/-/config/model", "prov", True],
        ["edges/-/to/-", "", False],
        None,
    ]


def typed_yaml_is_on_the_canvas(page: Page) -> None:
    code = page.locator("#flow-code .cm-content")
    write(page, FLOW.replace("type: agent, config: {prompt: answer.md}", "type: agnt"))
    # The server's own finding, where it is.
    expect(page.locator("#flow-problems")).to_contain_text("unknown type “agnt”")
    expect(page.locator("#flow-code .cm-lintRange-error")).to_be_visible()
    expect(node(page, "answer").locator(".flow-node.error")).to_be_visible()
    write(
        page,
        FLOW.replace("{from: answer, to: END}", "{from: answer, to: judge}").replace(
            "\n", "\nmax_steps: 9\n", 1
        ),
    )
    expect(page.locator(".react-flow__edge[data-id='answer → judge 1']")).to_be_attached()
    page.click("[data-do=undo]")
    page.click("[data-do=undo]")
    expect(page.locator("#flow-yaml")).to_have_value(FLOW)
    # Completed by the published schema.
    code.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("max_")
    expect(page.locator("#flow-code .cm-tooltip-autocomplete")).to_contain_text("max_steps")
    page.keyboard.press("Escape")
    page.click("[data-do=undo]")
    expect(page.locator("#flow-yaml")).to_have_value(FLOW)


def the_canvas_writes_yaml(page: Page) -> None:
    node(page, "judge").click()
    page.click(".flow-add > summary")
    page.click("[data-type=human_review]")
    shows(
        page,
        "- {from: judge, to: human_review}",
        "- {from: human_review, to: answer}",
        "# by its risk",
        "   # the end",
    )
    # Joined by its form, with the keyboard's own means.
    expect(page.locator("#flow-form h3")).to_have_text("human_review")
    page.get_by_label("Join to").select_option(label="END – End")
    shows(page, "- {from: human_review, to: END}")
    expect(page.locator("#flow-form h3")).to_have_text("human_review → END")
    page.get_by_label("condition", exact=True).select_option(label="on a condition")
    page.locator(".flow-mono").fill('review_decision == "reject"')
    shows(page, """{from: human_review, to: END, condition: review_decision == "reject"}""")
    before = text_of(page)
    box = node(page, "answer").bounding_box()
    assert box
    page.mouse.move(box["x"] + 30, box["y"] + 15)
    page.mouse.down()
    page.mouse.move(box["x"] + 90, box["y"] + 55, steps=4)
    page.mouse.up()
    shows(page, "layout:\n  answer: [")
    page.keyboard.press("Control+z")
    expect(page.locator("#flow-yaml")).to_have_value(before)


def a_reload_offers_the_draft(somebody: Visitor, flow: models.Flow) -> None:
    before = text_of(somebody.page)
    page = open_editor(somebody, flow)
    assert text_of(page) == FLOW
    page.click("#flow-draft-restore")
    expect(page.locator("#flow-yaml")).to_have_value(before)


def the_second_tab_is_refused(somebody: Visitor, flow: models.Flow) -> None:
    second = somebody.page.context.new_page()
    second.goto(somebody.page.url)
    second.wait_for_selector("body[data-flow-ready]")
    write(second, FLOW.replace("the desk", "both"))
    shows(second, "both")
    somebody.page.click("[value=save]")
    expect(somebody.page.locator("body")).to_contain_text("Version 2 was saved.")
    second.click("[value=save]")
    expect(second.locator("p[role=alert]:visible")).to_contain_text("saved version 2 meanwhile")
    assert "both" in text_of(second) and flow.versions.count() == 2
    second.wait_for_selector("body[data-flow-ready]")
    second.click("[value=save]")
    expect(second.locator("body")).to_contain_text("Version 3 was saved.")
    # What is saved is offered no more, once the page's script has run.
    second.wait_for_load_state()
    assert (
        second.evaluate("() => Object.keys(localStorage).filter((one) => one.includes('draft'))")
        == []
    )
    second.close()
