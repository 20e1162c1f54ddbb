"""Transcript: the same questions over every path, of models that invent, contradict and cite nothing.

``make transcript`` prints it. With TRANSCRIPT_URL (an endpoint of OpenAI's protocol) and
TRANSCRIPT_MODEL a real one is asked too, TRANSCRIPT_QUESTIONS of the questions (default: all).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from agents import models
from rag.core.ports import ChatRequest
from rag.services.wiring import registry as wiring
from rag.stages.text.sentences import sentence_spans
from rag.stages.text.terms import is_han
from tests.integration.agent_world import AgentWorld, world
from tests.integration.answer_paths import PATHS, PathAnswer

__all__ = ["world"]
QUESTIONS = (
    "How often is the pump serviced?",
    "Who services the pump?",
    "What does the filter of the pump cost?",
    "How long does the warranty of the pump last?",
    "Until when are seeds borrowed?",
    "水泵的保修期是多久？",
    "How often is the HX-900 serviced?",
    "What colour is the pump?",
    "Who wrote Moby-Dick?",
    "法国的首都是哪里？",
)
URL, MODEL = os.environ.get("TRANSCRIPT_URL", ""), os.environ.get("TRANSCRIPT_MODEL", "model")
HELD = {"cited", "attributed"}


def invents(request: ChatRequest) -> str:
    if is_han(request.question):
        return "据火星总统说，每 999 天一次。"
    return "Every 999 days, according to the president of Mars."


def contradicts(request: ChatRequest) -> str:
    """Deny the first passage, and quote it."""
    doc_id, text = request.passages[0] if request.passages else ("doc_01", "It is so.")
    start, end = sentence_spans(text)[0]
    said = text[start:end].strip().rstrip(".。")
    claim = f"并非{said}" if is_han(text) else f"It is not true that {said[:1].lower()}{said[1:]}"
    return f'{claim}.<cite doc_id="{doc_id}" quote="{said}"></cite>'


def cites_nothing(request: ChatRequest) -> str:
    if is_han(request.question):
        return "水泵的保修期是五年，由制造商承担。"
    return "It is done every five years by the manufacturer in Norway."


STUBS: dict[str, Callable[[ChatRequest], str]] = {
    "invents": invents,
    "contradicts": contradicts,
    "cites nothing": cites_nothing,
}


def faults(answer: PathAnswer) -> list[str]:
    """Return what is wrong with how an answer is told, whatever it says."""
    wrong = []
    if answer.outcome == "answered" and not (answer.verdicts and set(answer.verdicts) <= HELD):
        wrong.append("answered without a source")
    if (answer.confidence or 0) > 0.5 and HELD.isdisjoint(answer.verdicts):
        wrong.append("confident without a source")
    return wrong


def transcribe(world: AgentWorld, model: Any, name: str, questions: tuple[str, ...]) -> list[str]:
    """Print each answer of a model and return the faults."""
    wrong = []
    for asked in questions:
        print(f"\n## {name}: {asked}")
        for path, answer_by in PATHS.items():
            world.use(model)
            models.Agent.objects.filter(pk=world.agent.pk).update(agent_type="rag")
            answer = answer_by(world, asked)
            verdicts = ", ".join(f"{n} {v}" for v, n in Counter(answer.verdicts).items())
            found = faults(answer)
            wrong += [f"{name} | {path} | {asked} | {fault} | {answer}" for fault in found]
            text = " ".join(answer.text.split())[:110]
            confidence = "-" if answer.confidence is None else f"{answer.confidence:.2f}"
            print(f"{path:<14} {answer.outcome:<11} {confidence:<5} {verdicts or '-':<28} {text}")
    return wrong


@pytest.mark.parametrize("name", STUBS)
def test_nothing_that_no_source_says_is_answered(world: AgentWorld, name: str) -> None:
    assert transcribe(world, STUBS[name], name, QUESTIONS) == []


@pytest.mark.skipif(not URL, reason="TRANSCRIPT_URL names no endpoint")
def test_nothing_that_a_real_model_makes_up_is_answered(world: AgentWorld, settings: Any) -> None:
    settings.RAG = {**settings.RAG, "OPENAI_BASE_URL": URL, "TIMEOUT_S": 300.0}
    model = wiring.chat_model(f"openai_compatible:{MODEL}")
    n_questions = int(os.environ.get("TRANSCRIPT_QUESTIONS", len(QUESTIONS)))
    assert transcribe(world, model, MODEL, QUESTIONS[:n_questions]) == []
