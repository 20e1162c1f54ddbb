"""Pictures of the main pages for the guides: ``python -m tests.browser.screenshots [NAME …]``.

A demo store in a folder of its own, a server, a browser; the pictures land in docs/screenshots.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.browser.visitor import FLAGS, LOCALES, WAIT_MS, chromium
from tests.fakes.website import Website

BASE_DIR = Path(__file__).resolve().parents[2]
TARGET = BASE_DIR / "docs" / "screenshots"
PASSWORD = "pictures"
SIZE = {"width": 1280, "height": 800}
QUESTION = {
    "en": "How long do I ventilate after a UV lamp breaks?",
    "zh-hans": "水培架显示 E21 以后，要等多久才能重新启动水泵？",
}
FLOW = {
    "flow.yaml": """\
name: safety_desk
description: Answers questions on safety; a person reads what is risky before it is sent.
nodes:
  - name: judge
    type: agent
    config: {prompt: prompts/10-judge.md}
  - name: look_up
    type: rag
    config:
      data_sources:
        - {name: manuals, type: vector_store, collection: demo, top_k: 4}
  - name: review
    type: human_review
    config: {message: "May this be answered? {user_query}", decisions: [answer, refuse]}
  - name: answer
    type: agent
    config: {prompt: prompts/20-answer.md}
edges:
  - {from: judge, to: review, condition: risk == "high"}
  - {from: judge, to: look_up, condition: default}
  - {from: review, to: look_up, condition: review_decision == "answer"}
  - {from: review, to: END, condition: default}
  - {from: look_up, to: answer}
  - {from: answer, to: END}
entry_node: judge
""",
    "prompts/10-judge.md": 'Judge the risk of this question as JSON {"risk": "high|low"}: {user_query}\n',
    "prompts/20-answer.md": "Answer from these passages alone.\n\n{rag_context}\n\nQuestion: {user_query}\n",
}
SCRIPT = """
answers:
  - {contains: Judge the risk, answer: {risk: high}}
default: Leave the room at once and ventilate for at least 25 minutes.
"""
# An agent whose model is a script: what is asked of it, by verdict and language.
VERDICTS = {
    "en": {
        "grounded": "How long do I ventilate after a UV lamp breaks?",
        "partly": "What is to be done when a UV lamp breaks?",
        "refused": "Who wrote the novel Moby-Dick?",
    },
    "zh-hans": {
        "grounded": "水培架显示 E21 以后，要等多久才能重新启动水泵？",
        "partly": "水培架显示 E21 时应当怎样处理？",
        "refused": "法国的首都是哪里？",
    },
}
WRITTEN = """
answers:
  - contains: How long do I ventilate
    answer: <cite quote="ventilate for at least 25 minutes before anyone goes back in">Ventilate for at
      least 25 minutes before anyone goes back in.</cite>
  - contains: What is to be done when a UV lamp
    answer: |
      <cite quote="If a UV lamp breaks, leave the plant room at once">Leave the plant room at once.</cite>
      Ventilate for at least 25 minutes before anyone goes back in.
      Pick up the fragments with stiff card and put them into the yellow drum.
      The insurance company pays 900 yuan for each broken lamp.
  - contains: 要等多久
    answer: <cite quote="等待 15 分钟让电机冷却">等待 15 分钟让电机冷却，然后再重新启动。</cite>
  - contains: 应当怎样处理
    answer: |
      出现 E21 时，先断开水泵电源，等待 15 分钟让电机冷却。
      清理进水口的根须和藻类，然后再重新启动。
      <cite quote="同一天内出现两次 E21，必须停用该架并报修，不得继续强行启动。">同一天内出现两次 E21，必须停用该架并报修。</cite>
      维修费用由保险公司全额承担。
"""
MAKE_AGENT = """
from agents.models import Agent
from rag.models import Store
agent = Agent.objects.create(name="guide", display_name="Guide", model="scripted:written.yaml", is_public=True)
agent.stores.set(Store.objects.filter(slug="demo"))
# A widget: visitors may read what a group may.
from django.contrib.auth.models import Group
from agents.models import Widget
visitors = Group.objects.create(name="Visitors")
Store.objects.get(slug="demo").reader_groups.add(visitors)
Widget.objects.create(key="wk_demo", agent=agent, group=visitors, name="Plant help", colour="#0f766e", origins=[SHOP])
# An agent that calls out, of somebody who may not read the store.
from django.contrib.auth.models import User
Store.objects.filter(slug="demo").update(is_public=False)
source = {"type": "api", "endpoint": "https://translate.example/v1", "description": "Translates."}
vendor = User.objects.create_user("vendor")
Agent.objects.create(name="translator", display_name="Translator", owner=vendor, is_public=True, agent_type="react",
    config={"sources": {"translate": source}})
"""
# A site of somebody else's.
SHOP = """<!DOCTYPE html><html lang="{language}"><head><meta charset="utf-8"><title>Shop</title>
<meta name="viewport" content="width=device-width">
<script async src="{url}/widget/wk_demo.js"></script><style>
body {{ font: 18px/1.6 Georgia, serif; margin: 0; color: #333; }} header {{ background: #ecfdf5; padding: 2rem 3rem; }}
main {{ padding: 1rem 3rem; max-width: 34rem; }}</style></head><body><header><h1>Green Rooms</h1></header>
<main><h2>Hydroponic racks</h2><p>Racks, lamps and pumps for plant rooms.</p></main></body></html>"""
SITE = Website()
FLOW_PAGE = "/admin/agents/flow/1/edit/"
# Names of pictures that are to be taken alone.
ONLY = frozenset(sys.argv[1:])
Step = Callable[[Page], None]


def main() -> int:
    """Take all pictures; return 1 where there is no Chromium."""
    if chromium() is None:
        print("Chromium is not installed: apt-get install chromium", file=sys.stderr)
        return 1
    var = Path(tempfile.mkdtemp(prefix="citable-pictures-", dir="/tmp"))
    var.chmod(0o711)
    os.environ |= {"CITABLE_VAR": str(var), "DATABASE_URL": "", "REDIS_URL": ""}
    try:
        with SITE:
            _fill(var)
            _serve(var)
    finally:
        subprocess.run([sys.executable, "-m", "project.db", "stop"], cwd=BASE_DIR, check=False)
        shutil.rmtree(var, ignore_errors=True)
    return 0


def _manage(*words: str) -> None:
    subprocess.run([sys.executable, "manage.py", *words], cwd=BASE_DIR, check=True)


def _fill(var: Path) -> None:
    """Make the demo store, a flow with a script in place of a model, and a known password."""
    _manage("rag_demo")
    folder = var / "flow"
    (folder / "prompts").mkdir(parents=True)
    for name, text in FLOW.items():
        (folder / name).write_text(text, encoding="utf-8")
    (var / "script.yaml").write_text(SCRIPT, encoding="utf-8")
    (var / "written.yaml").write_text(WRITTEN, encoding="utf-8")
    _manage("shell", "-v", "0", "-c", f"SHOP = {SITE.origin!r}{MAKE_AGENT}")
    _manage("flow_import", str(folder))
    _manage(
        "shell",
        "-v",
        "0",
        "-c",
        "from django.contrib.auth.models import User\n"
        f"user = User.objects.get(username='admin'); user.set_password('{PASSWORD}'); user.save()",
    )


def _serve(var: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    SITE.pages = {f"/{code}": SHOP.format(language=code, url=url) for code in LOCALES}
    words = [str(BASE_DIR / "project" / "web_server.py"), "--port", str(port)]
    # Where the script lies, so that a picture shows its name alone.
    env = {**os.environ, "PYTHONPATH": str(BASE_DIR)}
    server = subprocess.Popen([sys.executable, *words], cwd=var, env=env)
    try:
        _wait_for(url)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS])
            for language in LOCALES:
                context = browser.new_context(viewport=SIZE, locale=LOCALES[language])  # type: ignore[arg-type]
                context.set_default_timeout(WAIT_MS)
                _visit(context.new_page(), url, language)
                context.close()
            browser.close()
    finally:
        server.terminate()
        server.wait(15)


def _wait_for(url: str) -> None:
    for _ in range(300):
        with suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(f"{url}/chat", timeout=5)
            return
        time.sleep(0.1)
    raise TimeoutError(url)


def _visit(page: Page, url: str, language: str) -> None:
    page.goto(f"{url}/admin/login/?next=/admin/")
    page.fill("[name=username]", "admin")
    page.fill("[name=password]", PASSWORD)
    page.click("[type=submit]")

    def take(name: str, path: str = "", step: Step | None = None) -> None:
        if ONLY and name not in ONLY:
            return
        if path:
            page.goto(f"{url}{path}")
        if step is not None:
            step(page)
        page.wait_for_load_state("networkidle")
        shown = name if language == "en" else f"{name}-zh"
        page.screenshot(path=TARGET / f"{shown}.png")
        print(shown)

    take("chat", "/chat", lambda page: _ask(page, language))
    if language == "en":
        take("chat-phone", "", _on_a_phone)
    for verdict, question in VERDICTS[language].items():
        take(f"answer-{verdict}", "/chat", lambda page, asked=question: _ask_guide(page, asked))
        if verdict == "partly":
            take("answer-partly-phone", "", _as_phone)
            _as_desk(page)
    take("widget-site", "", lambda page: _ask_on_a_site(page, language))
    if language == "en":
        take("widget-phone", "", _as_phone)
    _as_desk(page)
    take("consent", "/chat", lambda page: _ask_translator(page, language))
    if language != "en":
        take("flow-phone", FLOW_PAGE, _flow_on_a_phone)
        return
    take("approval", "/admin/agents/outboundgrant/add/")
    take("widget", "/admin/agents/widget/1/change/")
    take("desk", "/admin/")
    take("files", "/admin/rag/file/")
    take("store", "/admin/rag/store/1/change/")
    take("upload", "/admin/rag/store/1/upload/")
    take("text", "/admin/rag/file/3/text/")
    take("chunk", "/admin/rag/chunk/?file=3", lambda page: page.click("#result_list tbody th a"))
    take("search", "/admin/rag/store/1/search/?q=ventilate+after+a+UV+lamp+breaks")
    take("queries", "/admin/rag/querylog/")
    take("agent", "/admin/agents/agent/1/change/")
    take("flow", FLOW_PAGE, _flow)
    take("flow-node", "", _flow_node)
    take("run", "/admin/agents/flow/1/run/", _run)


def _ask(page: Page, language: str) -> None:
    page.fill("#message", QUESTION[language])
    page.press("#message", "Enter")
    page.locator(".turn.assistant .tools").wait_for()
    page.locator(".cite").first.click()
    page.locator(".sheet img").wait_for()
    page.wait_for_function("() => document.querySelector('.sheet img').naturalWidth > 0")


def _ask_guide(page: Page, question: str) -> None:
    page.select_option("#agent", "guide")
    page.fill("#message", question)
    page.press("#message", "Enter")
    page.locator(".turn.assistant .tools").wait_for()


def _ask_on_a_site(page: Page, language: str) -> None:
    page.goto(f"{SITE.origin}/{language}")
    page.locator("citable-widget button").click()
    chat = page.frame_locator("citable-widget iframe")
    chat.locator("#message").fill(VERDICTS[language]["grounded"])
    chat.locator("#message").press("Enter")
    chat.locator(".turn.assistant .tools").wait_for()


def _ask_translator(page: Page, language: str) -> None:
    page.select_option("#agent", "translator")
    page.fill("#message", QUESTION[language])
    page.press("#message", "Enter")
    page.locator("#problem button").wait_for()


def _on_a_phone(page: Page) -> None:
    page.click("#close-evidence")
    _as_phone(page)
    page.emulate_media(color_scheme="dark")
    # The next picture is of a desk again.
    page.once("load", _as_desk)


def _as_phone(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 780})
    page.wait_for_timeout(200)


def _as_desk(page: Page) -> None:
    page.set_viewport_size(SIZE)  # type: ignore[arg-type]
    page.emulate_media(color_scheme="light")


def _flow(page: Page) -> None:
    page.wait_for_selector("body[data-flow-ready]")
    page.locator("#flow-checked.desk-good").wait_for()
    page.wait_for_timeout(500)


def _flow_node(page: Page) -> None:
    page.click("[data-view=canvas]")
    page.locator(".react-flow__node[data-id=review]").click()
    page.wait_for_timeout(500)


def _flow_on_a_phone(page: Page) -> None:
    _as_phone(page)
    page.reload()
    _flow(page)
    page.locator(".react-flow__node[data-id=judge]").click()
    page.evaluate("() => document.getElementById('flow-editor').scrollIntoView()")
    page.wait_for_timeout(300)
    page.once("load", _as_desk)


def _run(page: Page) -> None:
    page.fill("[name=message]", "May I go back in after a UV lamp broke?")
    page.fill("[name=model]", "scripted:script.yaml")
    page.click("#flow-start [type=submit]")
    page.locator("[data-decision]").first.wait_for()


if __name__ == "__main__":
    sys.exit(main())
