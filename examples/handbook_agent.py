"""An agent with retrieval: three lines make it one, the rest is what it does with the sources.

Run ``python manage.py shell -c "from examples.handbook_agent import main; main()" `` after
``make demo``.
"""

from __future__ import annotations

from typing import Any

from agents.mixins import RAGMixin
from rag.core.access import Scope
from rag.core.ports import ChatRequest
from rag.core.types import Message
from rag.services.wiring.registry import chat_model


class HandbookAgent(RAGMixin):
    """Answers from the store ``demo`` with the configured chat model, and checks its citations."""

    rag_stores = ("demo",)

    def answer(self, question: str, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state with the answer, its citations and how the sources were found."""
        found = self.retrieve_context_sync(question, state, context_type="xml")
        prompt = self.enhance_prompt_with_rag(question, found["context"])
        passages = [
            (f"doc_{number:02d}", result["content"])
            for number, result in enumerate(found["rag_results"], start=1)
        ]
        reply = chat_model().generate(
            ChatRequest([Message("user", prompt)], question=question, passages=passages)
        )
        cited = self.cite(reply.text, found["rag_results"])
        return {
            **state,
            "answer": cited["text"],
            "citations": cited["citations"],
            "rag_metadata": found["metadata"],
        }


def main() -> None:
    """Ask one question as an operator and print what came of it."""
    # Whoever serves people passes their own scope, or user_id, and they see what they may.
    state = HandbookAgent().answer("When is the pump serviced?", {"scope": Scope.operator()})
    print(state["answer"])
    for citation in state["citations"]:
        print(f"[{citation['id']}] {citation['source']['name']}: {citation['verdict']}")
