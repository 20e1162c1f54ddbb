"""Flow editor benchmark: frames a second of a flow of 200 nodes on the canvas, in Chromium.

Run ``python -m benchmarks.flow_editor`` on a quiet machine. A node is dragged, dropped, undone, an
option is typed, the canvas is panned. Works in a database of its own and drops it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from benchmarks.scratch import scratch_database

# isort: split
# Django is set up by now, so that models can be imported.
from django.contrib.auth.models import User
from django.db import connections
from playwright.sync_api import Page

from agents.flows.definition.archive import FlowFiles
from agents.flows.versions.versions import save_flow_version
from benchmarks.record import Report
from rag.services.access import scope_of
from tests.browser.visitor import chromium, one_browser, visitor
from tests.server_processes import server_process

N_NODES = 200
# 60 a second on a screen of 60 Hz, which is told as 59 and a fraction.
LEAST_FPS = 59
START = """() => {
  const frames = [];
  window.benchFrames = frames;
  window.benchRuns = true;
  let last = performance.now();
  const step = () => {
    const now = performance.now();
    frames.push(now - last);
    last = now;
    if (window.benchRuns) requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}"""
STOP = """() => { window.benchRuns = false; return window.benchFrames.slice(1); }"""


def main() -> int:
    """Measure everything and return the exit status: 1 after an error, not after a missed goal."""
    if chromium() is None:
        print("Chromium is not installed: apt-get install chromium", file=sys.stderr)
        return 1
    report = Report(f"flow editor, {N_NODES} nodes")
    with scratch_database():
        owner = User.objects.create_superuser("owner")
        files = FlowFiles(_flow())
        flow = save_flow_version(files=files, scope=scope_of(owner)).flow
        with (
            server_process() as url,
            one_browser() as browser,
            visitor(browser, url, owner) as somebody,
        ):
            somebody.go(f"/admin/agents/flow/{flow.pk}/edit/")
            somebody.page.locator(".react-flow__node").nth(N_NODES + 1).wait_for()
            somebody.page.wait_for_timeout(3000)
            for name, frames in _measured(somebody.page):
                fps = 1000 * len(frames) / sum(frames)
                report.add(f"{name}: frames a second", fps, least=LEAST_FPS)
                report.add(f"{name}: longest frame, ms", max(frames))
            # Within the browser's loop Django has connections of its own.
            connections.close_all()
    report.save()
    return 0


def _flow() -> str:
    lines = ["name: wide", "nodes:"]
    for n in range(N_NODES):
        lines += [f"  # Step {n}.", f"  - name: n{n}", "    type: human_review"]
        lines += ["    config:", f"      message: May step {n} be taken?"]
    lines.append("edges:")
    for n in range(N_NODES):
        after = [f"n{m}" for m in range(3 * n + 1, 3 * n + 4) if m < N_NODES]
        *others, last = after or ["END"]
        for m in others:
            lines += [f"  - from: n{n}", f"    to: {m}", f'    condition: review_decision == "{m}"']
        lines.append(f"  - {{from: n{n}, to: {last}, condition: default}}")
    return "\n".join([*lines, "entry_node: n0", ""])


def _measured(page: Page) -> list[tuple[str, list[float]]]:
    node = page.locator(".react-flow__node[data-id=n20]")

    def timed(act: Callable[[], Any], settle_ms: int) -> list[float]:
        page.evaluate(START)
        act()
        page.wait_for_timeout(settle_ms)
        frames: list[float] = page.evaluate(STOP)
        return frames

    def centre(of: Any) -> tuple[float, float]:
        box = of.bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def drag(x: float, y: float) -> None:
        for step in range(90):
            page.mouse.move(x + step * 2, y + step)

    x, y = centre(node)
    page.mouse.move(x, y)
    page.mouse.down()
    found = [("move", timed(lambda: drag(x, y), 0))]
    found.append(("drop", timed(page.mouse.up, 1500)))
    found.append(("undo", timed(lambda: page.click("[data-do=undo]"), 1500)))
    node.click()
    message = page.locator("#flow-form").get_by_label("message", exact=True)
    found.append(("edit", timed(lambda: message.press_sequentially("Now? "), 1500)))
    x, y = centre(page.locator("#flow-canvas"))
    page.mouse.move(x, y + 150)
    page.mouse.down()
    found.append(("pan", timed(lambda: drag(x, y + 150), 0)))
    page.mouse.up()
    return found


if __name__ == "__main__":
    sys.exit(main())
