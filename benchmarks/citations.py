"""Citations benchmark: precision and recall of the verification of quotes, and its cost.

Run ``python -m benchmarks.citations [--data DIR] [--tune] [--show KIND]``. The halves of even
articles were tuned on (``--tune`` prints them, and keeps nothing); the row is about the odd ones.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from benchmarks.citation_changes import (
    ABRIDGED,
    ALTERED,
    CUT_ANYWHERE,
    HIDING,
    HONEST,
    Change,
    says_the_same,
)
from benchmarks.citation_quotes import (
    LANGUAGES,
    PER_ARTICLE,
    Half,
    as_passages,
    as_tag,
    read_halves,
)
from benchmarks.record import Report
from rag.core.types import VERIFIED
from rag.stages.citing.verify import verify_answer
from rag.stages.prompting.context import Passage
from rag.stages.text.sentences import sentence_spans

DATA = Path("../shared/data")
SEED = 7
N_CITATIONS, N_CHARS, N_TIMED, N_TIMES = 10, 40_000, 200, 3


def measure_quotes(report: Report, half: Half, shown: str) -> None:
    """Print which altered quotes are caught, kind by kind, and which honest ones are doubted."""
    language = half.language
    caught = Counter[str]()
    for kind, change in ALTERED.items():
        n, n_doubted = doubted(half, change, shown=kind == shown and "verified")
        caught.update(n=n, caught=n_doubted)
        report.add(f"{language}: {kind}, caught", n_doubted / n, least=0.99, is_kept=False)
    share = caught["caught"] / caught["n"]
    report.add(f"{language}: altered quotes caught", share, least=0.99)
    for is_strict in (False, True):
        n, n_doubted = doubted(half, CUT_ANYWHERE, is_strict=is_strict)
        name = "whole sentences wanted" if is_strict else "by default"
        least = 0.99 if is_strict else None
        report.add(f"{language}: end cut anywhere, {name}, caught", n_doubted / n, least=least)
    honest = Counter[str]()
    for kind, change in HONEST.items():
        n, n_doubted = doubted(half, change, is_honest=True, shown=kind == shown and "altered")
        honest.update(n=n, doubted=n_doubted)
        report.add(f"{language}: {kind}, doubted", n_doubted / n, most=0.01, is_kept=False)
    share = honest["doubted"] / honest["n"]
    report.add(f"{language}: honest quotes doubted", share, most=0.01)
    for name, change, least, most in (
        ("abridged quotes accepted", ABRIDGED, 0.95, None),
        ("abridged quotes that hide a turn accepted", HIDING, None, 0.0),
    ):
        n, n_doubted = doubted(half, change, shown=shown == name and "abridged", holds=VERIFIED)
        report.add(f"{language}: {name}", 1 - n_doubted / n, least=least, most=most)
    n_doubted = sum(verdict(half, number, text) != "verified" for number, text in half.phrases)
    report.add(f"{language}: phrases picked by people doubted", n_doubted / len(half.phrases))


def doubted(
    half: Half,
    change: Change,
    *,
    is_honest: bool = False,
    is_strict: bool = False,
    shown: str | bool = False,
    holds: Collection[str] = ("verified",),
) -> tuple[int, int]:
    """Return how many sentences ``change`` applies to, and how many of them are not verified."""
    rng = random.Random(SEED)
    n = n_doubted = 0
    for number, sentence in half.sentences:
        quote = change(sentence, half.language, rng)
        if quote == sentence or (not is_honest and says_the_same(quote, sentence)):
            continue
        found = verdict(half, number, quote, is_strict=is_strict)
        n += 1
        n_doubted += found not in holds
        if found == shown:
            print(f"    {found}: {quote!r} of {sentence!r}")
    return n, n_doubted


def verdict(half: Half, number: int, quote: str, *, is_strict: bool = False) -> str:
    """Return the verdict on a quote among the paragraphs of its article."""
    first = number // PER_ARTICLE * PER_ARTICLE
    tag = as_tag(half.passages[number].doc_id, quote)
    passages = half.passages[first : first + PER_ARTICLE]
    (citation,) = verify_answer(tag, passages, is_strict=is_strict).citations
    return citation.verdict


def measure_speed(report: Report, half: Half) -> None:
    """Print the times of an answer with ten citations, the sources folded anew each time."""
    text = "\n".join(passage.text for passage in half.passages)
    text *= 1 + 2 * N_CHARS // len(text)
    change = ALTERED["swapped words"]
    worst = 0.0
    for n_passages in (10, 100):
        size = N_CHARS // n_passages
        passages = as_passages([text[n * size : (n + 1) * size] for n in range(n_passages)])
        for name, changed in (("none altered", 0), ("half altered", 5), ("all altered", 10)):
            times = timed_answers(passages, half.language, change, changed)
            p50, p95 = np.percentile(times, 50), np.percentile(times, 95)
            about = f"{half.language}: {n_passages} passages, {name}"
            report.add(f"{about}, p50 ms", p50, is_kept=False)
            report.add(f"{about}, p95 ms", p95, most=5, is_kept=False)
            worst = max(worst, float(p95))
    report.add(f"{half.language}: ten citations, 40k characters, p95 ms", worst, most=5)


def timed_answers(
    passages: Sequence[Passage], language: str, change: Change, n_altered: int
) -> list[float]:
    """Return the milliseconds of each answer of ten citations, the best of three times.

    So the answers differ and what else the machine does stays out.
    """
    rng = random.Random(SEED)
    whole = {
        passage.doc_id: [
            passage.text[start:end]
            for start, end in sentence_spans(passage.text)[1:-1]
            if end - start >= 20
        ]
        for passage in passages
    }
    able = [doc_id for doc_id, sentences in whole.items() if sentences]
    times = []
    for _ in range(N_TIMED):
        tags = []
        for n in range(N_CITATIONS):
            doc_id = able[n % len(able)] if len(able) <= N_CITATIONS else rng.choice(able)
            quote = rng.choice(whole[doc_id])
            tags.append(as_tag(doc_id, change(quote, language, rng) if n < n_altered else quote))
        answer = "\n".join(tags)
        times.append(min(timed_check(answer, passages) for _ in range(N_TIMES)))
    return times


def timed_check(answer: str, passages: Sequence[Passage]) -> float:
    """Return how many milliseconds one answer took; nothing is kept from the time before."""
    begun = time.perf_counter()
    verify_answer(answer, passages)
    return (time.perf_counter() - begun) * 1e3


def main(arguments: list[str] | None = None) -> None:
    """Measure everything and keep the row, unless only the halves to tune on are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the test sets")
    parser.add_argument("--tune", action="store_true", help="the other halves; keeps nothing")
    parser.add_argument("--show", default="", metavar="KIND", help="print that kind's failures")
    chosen = parser.parse_args(arguments)
    report = Report("citations")
    for language in LANGUAGES:
        tuned_on, held_out = read_halves(chosen.data / f"xquad-{language}", language)
        half = tuned_on if chosen.tune else held_out
        measure_quotes(report, half, chosen.show)
        measure_speed(report, half)
    if not chosen.tune:
        report.save()


if __name__ == "__main__":
    main()
