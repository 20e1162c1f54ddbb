"""One answer over every path: what its sources do not say is nowhere taken for an answer."""

from __future__ import annotations

import pytest

from tests.integration.agent_world import QUOTE, AgentWorld, world
from tests.integration.answer_paths import OUTCOMES, PATHS

__all__ = ["world"]

ASKED = "How often will somebody come to our house to have the pump serviced?"
CITE = f'<cite doc_id="doc_01" quote="{QUOTE}"></cite>'
# What a model writes: the verdict of each statement, and of the whole.
ANSWERS = {
    "invents": (
        "Every 999 days, according to the president of Mars.",
        ["unsupported"],
        "ungrounded",
    ),
    "contradicts its quote": (f"The pump needs no service.{CITE}", ["contradicted"], "ungrounded"),
    # Held by what it adds to the question: each path has to know that.
    "cites nothing": (
        "Somebody will come to our house to have the pump serviced every 30 days.",
        ["attributed"],
        "grounded",
    ),
    "cites": (f"Every 30 days.{CITE}", ["cited"], "grounded"),
    "invents beside": (f"Every 30 days.{CITE} Mars owns it.", ["cited", "unsupported"], "partly"),
    "refuses": ("I do not know: the documents do not say it.", [], "not_found"),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("written", ANSWERS)
def test_an_answer_is_what_its_sources_say_of_it(
    world: AgentWorld, path: str, written: str
) -> None:
    text, verdicts, verdict = ANSWERS[written]
    if path == "supervisor" and verdict == "ungrounded":
        # What an agent of its team could not ground is not passed on.
        verdicts, verdict = [], "not_found"
    world.use(text)
    found = PATHS[path](world, ASKED)
    assert (found.verdicts, found.verdict) == (verdicts, verdict)
    assert found.outcome == OUTCOMES.get(verdict, verdict)
    if verdict in ("ungrounded", "not_found"):
        assert found.confidence is None or found.confidence <= 0.5
