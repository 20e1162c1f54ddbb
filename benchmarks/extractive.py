"""Extractive answers benchmark: is the answer to a question inside the first quote?

Run ``python -m benchmarks.extractive [--data DIR] [--tune] [--show N]``. A question of XQuAD is
asked over the paragraph that answers it and the four others that share most of its words, in a
random order, as a search may give them: as they stand, and as pages of the web have them, below a
headline and a lead that repeat the question's words and say nothing. The rules were written with
the halves of even articles and leads of their own (``--tune`` prints them, and keeps nothing); the
row is about the odd ones.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import random
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import django
import numpy as np
from django.core.management import call_command

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django.setup()

from benchmarks.citation_quotes import LANGUAGES, PER_ARTICLE  # noqa: E402
from benchmarks.record import Report  # noqa: E402 - Django's settings come first
from rag.core.ports import ChatModel, ChatRequest  # noqa: E402
from rag.evals.datasets import read_dataset  # noqa: E402
from rag.services.wiring import registry  # noqa: E402
from rag.stages.ranking.bm25 import bm25_scores  # noqa: E402
from rag.stages.text.normalize import normalize_quote  # noqa: E402
from rag.stages.text.terms import STOP_WORDS, is_han, segment_han  # noqa: E402

DATA = Path("../shared/data")
SEED, N_PASSAGES = 16, 5
# Headlines and leads, {0} the question's words: those to write the rules with, those to report on.
LEADS = {
    "zh": (
        (
            "{0}：一文看懂",
            "本文将为您介绍{0}的相关情况。",
            "{0}_百科",
            "关于{0}，下面是小编整理的内容。",
        ),
        ("【解读】{0}", "很多人都在问{0}，让我们一起来看看。", "{0} - 资讯网", "{0}一直受到关注。"),
    ),
    "en": (
        ("{0}: what to know", "Here is everything we know about {0}.", "{0} - Wiki", "{0}?"),
        (
            "{0} | Explained",
            "Many readers have asked about {0}.",
            "{0}, live updates",
            "More on {0}.",
        ),
    ),
}
_QUOTE = re.compile(r'<cite doc_id="doc_\d+" quote="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Asked:
    """A question over passages, one of which holds its answers."""

    question: str
    answers: Sequence[str]
    passages: Sequence[str]


def read_questions(folder: Path, *, is_tuning: bool) -> Iterator[Asked]:
    """Yield the questions about even articles, to tune on, or about odd ones, to report on."""
    dataset = read_dataset(folder)
    rows = [json.loads(line) for line in (folder / "queries.jsonl").open(encoding="utf-8")]
    answers = {row["_id"]: row["answers"] for row in rows}
    ids = [
        key for n, key in enumerate(dataset.documents) if (n // PER_ARTICLE % 2 == 0) == is_tuning
    ]
    texts = [dataset.documents[key] for key in ids]
    rng = random.Random(SEED)
    for key, query in dataset.queries.items():
        gold = next(iter(dataset.judgements[key]))
        if gold in ids:
            scores = bm25_scores(query, texts)
            order = sorted(range(len(ids)), key=lambda n: -scores[n])
            others = [n for n in order if ids[n] != gold][: N_PASSAGES - 1]
            passages = [dataset.documents[gold], *(texts[n] for n in others)]
            rng.shuffle(passages)
            yield Asked(query, answers[key], passages)


def with_leads(asked: Asked, leads: Sequence[str], rng: random.Random) -> Asked:
    """Return the question over passages below headlines of its own words."""
    is_chinese = is_han(asked.question)
    words = segment_han(asked.question) if is_chinese else asked.question.split()
    plain = [word.strip("？?，。,. ") for word in words]
    passages = []
    for text in asked.passages:
        for lead in rng.sample(leads, 2):
            kept = [word for word in plain if word and word.lower() not in STOP_WORDS]
            kept = [word for word in kept if rng.random() < 0.85]
            text = lead.format(("" if is_chinese else " ").join(kept)) + "\n" + text
        passages.append(text)
    return Asked(asked.question, asked.answers, passages)


def first_quote(model: ChatModel, asked: Asked) -> tuple[str, float]:
    """Return what an answer quotes first, and how long it took in milliseconds."""
    passages = [(f"doc_{n:02d}", text) for n, text in enumerate(asked.passages, start=1)]
    begun = time.perf_counter()
    text = model.generate(ChatRequest([], question=asked.question, passages=passages)).text
    ms = (time.perf_counter() - begun) * 1e3
    found = _QUOTE.search(text)
    return html.unescape(found[1]) if found else "", ms


def holds(quote: str, answers: Sequence[str]) -> bool:
    """Return whether a quote has one of the answers in it, but for typography."""
    folded = normalize_quote(quote).text
    return any(normalize_quote(answer).text in folded for answer in answers)


def main(arguments: list[str] | None = None) -> None:
    """Measure both languages and keep the row, unless only the tuned halves are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the test sets")
    parser.add_argument("--tune", action="store_true", help="the other halves; keeps nothing")
    parser.add_argument("--every", type=int, default=1, help="take every n-th question")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print N failures")
    chosen = parser.parse_args(arguments)
    # Embeddings of sentences are counted, in tables that a new installation has not.
    call_command("migrate", verbosity=0)
    report, model = Report("extractive"), registry.chat_model("extractive:sentences")
    for language in LANGUAGES:
        folder, rng = chosen.data / f"xquad-{language}", random.Random(SEED)
        asked = list(read_questions(folder, is_tuning=chosen.tune))[:: chosen.every]
        leads = LEADS[language][0 if chosen.tune else 1]
        below = [with_leads(one, leads, rng) for one in asked]
        for name, questions in (("as they stand", asked), ("below headlines", below)):
            measure(report, model, f"{language}, {name}", questions, chosen.show * chosen.tune)
    if not chosen.tune:
        report.save()


def measure(
    report: Report, model: ChatModel, name: str, questions: Sequence[Asked], n_shown: int
) -> None:
    """Print which share of first quotes holds an answer, and how long answers take."""
    quotes = [first_quote(model, one) for one in questions]
    pairs = list(zip(questions, quotes, strict=True))
    failed = [(one, quote) for one, (quote, _) in pairs if not holds(quote, one.answers)]
    for one, quote in failed[:n_shown]:
        print(f"    {one.question} {one.answers}: {quote}")
    share = 1 - len(failed) / len(questions)
    report.add(f"{name}: first quote holds the answer (of {len(questions)})", share, least=0.60)
    report.add(f"{name}: answer, p50 ms", float(np.median([ms for _, ms in quotes])))


if __name__ == "__main__":
    main()
