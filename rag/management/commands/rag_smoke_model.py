"""Try a chat model on the demo's documents: ``rag_smoke_model``."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rag.management.commands.rag_demo import FOLDER, fill_demo
from rag.management.rag_command import RagCommand
from rag.services.evaluation import (
    VERDICTS,
    SmokeAnswer,
    SmokeSummary,
    smoke_model,
    summarize_smoke,
    writing_model,
)

SHOWN_CHARACTERS = 200


class Command(RagCommand):
    """Ask a chat model 60 questions in both languages: citations, verdicts, refusals, times."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--model", default="", help="provider:model instead of RAG_CHAT_MODEL")
        parser.add_argument("--limit", type=int, default=60, help="ask so many of the questions")

    def handle(self, *args: Any, **options: Any) -> None:
        # Asked first: without a model nothing is indexed.
        name = writing_model(model=options["model"])
        rows = json.loads((FOLDER / "smoke_questions.json").read_text(encoding="utf-8"))
        questions = rows["questions"][: options["limit"]]
        store = fill_demo(self)
        self.stdout.write(self.style.MIGRATE_HEADING(f"\n{len(questions)} questions to {name}"))
        answers: list[SmokeAnswer] = []

        def tell(answer: SmokeAnswer) -> None:
            answers.append(answer)
            self._tell(answer, f"{len(answers)}/{len(questions)}")

        try:
            smoke_model(questions=questions, store=store, model=options["model"], on_answered=tell)
        finally:
            self._summarize(answers)

    def _tell(self, told: SmokeAnswer, number: str) -> None:
        self.stdout.write(f"{number} [{told.kind}] {told.question}")
        if told.answer is None:
            self.stdout.write(
                self.style.ERROR(f"  failed after {told.total_s:.1f} s: {told.error}")
            )
            return
        verdicts = Counter(one.verdict for one in told.answer.citations)
        grounds = told.answer.groundedness
        facts = [
            told.verdict + (", refused" if told.is_refused else ""),
            f"statements found: {grounds.n_found} of {len(grounds.statements)}",
            "citations: " + (", ".join(f"{n} {name}" for name, n in verdicts.items()) or "none"),
            f"first token {_seconds(told.first_s)}, in all {_seconds(told.total_s)}",
        ]
        style = self.style.SUCCESS if told.verdict == "grounded" else self.style.WARNING
        self.stdout.write(style("  " + " · ".join(facts)))
        text = " ".join(told.answer.text.split())
        cut = text[:SHOWN_CHARACTERS] + ("…" if len(text) > SHOWN_CHARACTERS else "")
        self.stdout.write(f"  {cut}")
        if told.answer.notice:
            self.stdout.write(self.style.NOTICE(f"  {told.answer.notice}"))

    def _summarize(self, answers: Sequence[SmokeAnswer]) -> None:
        if not answers:
            return
        of = {
            language: summarize_smoke(
                answers=[one for one in answers if language in ("all", one.language)]
            )
            for language in ("zh", "en", "all")
        }
        self.stdout.write("\n" + _row("", list(of)))
        for name, read in _rows().items():
            self.stdout.write(_row(name, [read(one) for one in of.values()]))


def _rows() -> dict[str, Callable[[SmokeSummary], str]]:
    return {
        **{name: partial(_count, name) for name in (*VERDICTS, "failed")},
        "statements found": lambda one: _share(one.statements),
        "citations that hold": lambda one: _share(one.citations),
        "off-topic refused": lambda one: _share(one.off_topic_refused),
        "absent refused or warned": lambda one: _share(one.absent_told),
        "answerable refused": lambda one: _share(one.answered_refused),
        "first token, s: p50 / p95": lambda one: _pair(one.first_s),
        "in all, s: p50 / p95": lambda one: _pair(one.total_s),
    }


def _count(name: str, of: SmokeSummary) -> str:
    return str(of.verdicts[name])


def _row(name: str, cells: Sequence[str]) -> str:
    return f"{name:<28}" + "".join(f"{cell:>16}" for cell in cells)


def _share(pair: tuple[int, int]) -> str:
    return f"{pair[0]} of {pair[1]}"


def _pair(seconds: tuple[float, float] | None) -> str:
    return " / ".join(f"{one:.1f}" for one in seconds) if seconds else "-"


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f} s"
