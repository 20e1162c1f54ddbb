"""Conversation benchmark: follow-ups made to stand alone by rules, and what retrieval makes of it.

Run ``python -m benchmarks.conversation [--data DIR]``. Dialogues of ours stand in
``data/conversation.txt``; the rules were written with one half before the eyes, the other is
reported. Dialogues over xquad are three questions to one paragraph; the words that a follow-up has
in common with those before are left out of it, as people do; only paragraphs of even number count.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django.setup()

from django.core.management import call_command  # noqa: E402

from benchmarks.conversation_turns import WITHOUT_PRONOUN, read_turns  # noqa: E402
from benchmarks.record import Report  # noqa: E402 - Django's settings come first
from rag.core.errors import RAGError  # noqa: E402
from rag.evals.datasets import Dataset, read_dataset  # noqa: E402
from rag.services.evaluation.datasets import evaluate_dataset  # noqa: E402
from rag.stages.query.condense import condense_question  # noqa: E402
from rag.stages.query.subject import tokens_of  # noqa: E402
from rag.stages.text.terms import is_han  # noqa: E402

DATA = Path("../shared/data")
N_QUESTIONS = 3
LONG = 2000
# The questions before, oldest first, and the follow-up.
Dialogue = tuple[list[str], str]
WAYS: dict[str, Callable[[str, Sequence[str]], str]] = {
    "as asked": lambda query, earlier: query,
    "behind the last question": lambda query, earlier: f"{earlier[-1]} {query}",
    "behind all questions": lambda query, earlier: " ".join([*earlier, query]),
    "by the rules": lambda query, earlier: condense_question(query, earlier).text,
}


def measure_turns(report: Report) -> None:
    """Print which part of each half says what it means, by kind and language."""
    for half in ("tune", "report"):
        right, total = Counter[str](), Counter[str]()
        for turn in read_turns(half):
            is_right = turn.holds(condense_question(turn.question, turn.earlier).text)
            names = [turn.kind, f"{turn.kind} in {'zh' if is_han(turn.question) else 'en'}"]
            names += ["without a pronoun"] if turn.kind in WITHOUT_PRONOUN else []
            for name in names:
                total[name] += 1
                right[name] += is_right
        is_kept = half == "report"
        label = "held out" if is_kept else "seen"
        for name in sorted(total):
            least = 0.85 if is_kept and name == "without a pronoun" else None
            is_main = is_kept and (name in ("without a pronoun", "pronoun", "switch"))
            text = f"{label}: {name}, of {total[name]}"
            report.add(text, right[name] / total[name], least=least, is_kept=is_main)


def measure_time(report: Report) -> None:
    """Print what one question costs after two thousand others."""
    said = [turn.question for turn in read_turns("tune")]
    long = [said[number % len(said)] for number in range(LONG)]
    times = []
    for query in said[:100]:
        started = time.perf_counter()
        condense_question(query, long)
        times.append((time.perf_counter() - started) * 1e3)
    report.add(f"rules after {LONG} questions: p50 ms", median(times), most=20)


def measure_retrieval(report: Report, data: Path) -> None:
    """Print the nDCG@10 of follow-ups to one paragraph, by how they are made to stand alone."""
    for name in ("xquad-zh", "xquad-en"):
        dataset = read_dataset(data / name)
        for form, dialogues in (
            ("whole", dict(_dialogues(dataset))),
            ("shortened", {key: _shortened(one) for key, one in _dialogues(dataset)}),
        ):
            for way, make in WAYS.items():
                queries = {key: make(query, earlier) for key, (earlier, query) in dialogues.items()}
                graded = {key: dataset.judgements[key] for key in queries}
                asked = replace(dataset, queries=queries, judgements=graded)
                run = evaluate_dataset(dataset=asked, mode="hybrid")
                label = f"{name}, {len(queries)} {form} follow-ups {way}: nDCG@10"
                report.add(label, run.figures["nDCG@10"], is_kept=form == "shortened")


def _dialogues(dataset: Dataset) -> Iterator[tuple[str, Dialogue]]:
    """Yield the follow-ups of each second paragraph by the key of the question."""
    asked: dict[str, list[str]] = defaultdict(list)
    for key in dataset.queries:
        asked[next(iter(dataset.judgements[key]))].append(key)
    for keys in list(asked.values())[::2]:
        said = [dataset.queries[key] for key in keys[:N_QUESTIONS]]
        for number in range(1, len(said)):
            yield keys[number], (said[:number], said[number])


def _shortened(dialogue: Dialogue) -> Dialogue:
    """Return the dialogue with each follow-up without the words that were said before it."""
    earlier, query = dialogue
    cut = [earlier[0], *(_cut(text, earlier[:n]) for n, text in enumerate(earlier) if n)]
    return cut, _cut(query, earlier)


def _cut(query: str, earlier: Sequence[str]) -> str:
    known = {token.folded for text in earlier for token in tokens_of(text) if token.has_content}
    kept, at = "", 0
    for token in tokens_of(query):
        if token.folded in known:
            kept, at = kept + query[at : token.start], token.end
    return " ".join((kept + query[at:]).split()) or query


def main() -> int:
    """Measure everything and return the exit status; a missed goal is no error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of the test sets")
    options = parser.parse_args()
    report = Report("conversation")
    measure_turns(report)
    measure_time(report)
    call_command("migrate", verbosity=0)
    try:
        measure_retrieval(report, options.data)
    except RAGError as error:
        print(error, file=sys.stderr)
        return 1
    report.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())
