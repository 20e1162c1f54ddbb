"""What people ask, what documents say and what models write is in no log at INFO."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from rag.core.errors import ProviderError
from rag.core.ports import ChatRequest
from tests.factories import FileFactory, publish
from tests.integration.agent_world import AgentWorld, Heard, world

__all__ = ["world"]
ASKED = "Which code opens the pump room, is it Quokka-77?"
SAID = "The pump room is opened by Wombat-88 and by nothing else."
CITED = f'<cite doc_id="doc_01" quote="{SAID}">Numbat-99 opens it.</cite>'
WORDS = ("Quokka", "Wombat", "Numbat", "Bilby")


@pytest.mark.parametrize("fails", ["", "rewrite", "generate", "rerank"])
def test_no_word_of_a_conversation_is_logged(
    world: AgentWorld, caplog: pytest.LogCaptureFixture, fails: str
) -> None:
    caplog.set_level(logging.INFO)
    for name in "abcd":
        publish(FileFactory(store=world.store, name=f"{name}.txt"), f"{SAID} {name}")
    world.set(
        enable_query_rewrite=True,
        enable_rerank=True,
        enable_memory=True,
        citation_failure="repair",
        session_titles="model",
        summary_tokens=100,
        history_turns=1,
    )

    def answer(request: ChatRequest) -> Any:
        system = request.messages[0].content
        kind = "rewrite" if "<conversation>" in request.messages[-1].content else "generate"
        kind = "rerank" if "ranking" in system else kind
        if kind == fails:
            raise ProviderError("the model is away")
        return {"rewrite": ASKED, "rerank": "Bilby is no JSON."}.get(kind, CITED)

    world.use(Heard(answer))
    first = world.ask(ASKED)
    told = world.ask("And is it that one?", session=str(first.row.session.key))
    assert told.last.kind == ("error" if fails == "generate" else "done")
    logged = "\n".join(f"{one.getMessage()} {one.exc_text or ''}" for one in caplog.records)
    assert [word for word in WORDS if word in logged] == []
