"""Grounding benchmark: verdicts of statements against the passages they were written from.

Run ``python -m benchmarks.grounding [--data DIR] [--tune] [--show KIND]``. The rules were tuned on
the halves of even articles and claims (``--tune`` prints them, and keeps nothing); the row is about
the odd ones.
"""

from __future__ import annotations

import argparse
import html
import random
import time
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.citation_answers import FOREIGN_KINDS, INVENTED_KINDS, KINDS, labelled_answers
from benchmarks.citation_claims import free_claims
from benchmarks.citation_quotes import LANGUAGES, PER_ARTICLE, Half, as_passages, read_halves
from benchmarks.grounding_claims import CONTRADICTING, contradicting_claims, translated_claims
from benchmarks.record import Report
from benchmarks.restated_answers import (
    ELSEWHERE,
    OF_ARTICLE,
    OF_PASSAGE,
    RIGHT,
    restated_answers,
)
from benchmarks.restated_answers import (
    REWORDED as ANSWERING,
)
from rag.stages.citing.verify import VerifiedAnswer, verify_answer

DATA = Path("../shared/data")
SEED = 7
N_SENTENCES, N_PASSAGES, N_TIMED = 10, 12, 100
REWORDED = (*KINDS, "two joined")


def cited(claim: str, half: Half, number: int, quote: str) -> VerifiedAnswer:
    """Return the answer of a claim with its quote, among the paragraphs of its article."""
    first = number // PER_ARTICLE * PER_ARTICLE
    doc_id = half.passages[number].doc_id
    tag = f'{" ".join(claim.split())}<cite doc_id="{doc_id}" quote="{html.escape(quote)}"></cite>'
    return verify_answer(tag, half.passages[first : first + PER_ARTICLE])


def holds(answer: VerifiedAnswer) -> bool:
    """Return whether a source says every statement of an answer."""
    return all(one.holds for one in answer.groundedness.statements)


def measure_contradictions(report: Report, half: Half, shown: str) -> None:
    """Print which claims are told to contradict the very quote they stand by."""
    caught = Counter[str]()
    for kind, change in CONTRADICTING.items():
        rng, n, n_caught = random.Random(SEED), 0, 0
        for number, claim, sentence in contradicting_claims(half, change, rng):
            is_caught = not holds(cited(claim, half, number, sentence))
            n, n_caught = n + 1, n_caught + is_caught
            if kind == shown and not is_caught:
                print(f"    held: {claim!r} of {sentence!r}")
        caught.update(n=n, caught=n_caught)
        report.add(f"{half.language}: {kind}, caught", n_caught / n, least=0.95, is_kept=False)
    share = caught["caught"] / caught["n"]
    report.add(f"{half.language}: contradicting claims caught", share, least=0.95)


def measure_statements(report: Report, half: Half, shown: str) -> None:
    """Print which statements are marked: of elsewhere, half invented, altered, true."""
    n, marked, doubted = Counter[str](), Counter[str](), Counter[bool]()
    n_quoted = Counter[bool]()
    for answer in labelled_answers(half, SEED):
        for sentence in answer.sentences:
            text = " ".join(sentence.text.split())
            n[sentence.kind] += 1
            marked[sentence.kind] += not holds(verify_answer(text, answer.passages))
            is_true = sentence.kind in REWORDED
            if is_true or sentence.kind in INVENTED_KINDS:
                quote = html.escape(" ".join(sentence.origin.split()))
                tag = f'{text}<cite doc_id="{sentence.passage}" quote="{quote}"></cite>'
                is_doubted = not holds(verify_answer(tag, answer.passages))
                n_quoted[is_true] += 1
                doubted[is_true] += is_doubted
                if sentence.kind == shown and is_doubted == is_true:
                    print(
                        f"    {'doubted' if is_true else 'held'}: {text!r} of {sentence.origin!r}"
                    )
    language = half.language
    for kind in sorted(n):
        report.add(f"{language}: {kind}, marked", marked[kind] / n[kind], is_kept=False)
    for name, kinds, least, most in (
        ("statements of elsewhere marked", FOREIGN_KINDS, 0.95, None),
        ("half invented statements marked", INVENTED_KINDS[:1], None, None),
        ("true statements without a quote marked", REWORDED, None, 0.05),
    ):
        share = sum(marked[kind] for kind in kinds) / sum(n[kind] for kind in kinds)
        report.add(f"{language}: {name}", share, least=least, most=most)
    share = doubted[True] / n_quoted[True]
    report.add(f"{language}: true statements by their quote marked", share, most=0.02)
    share = doubted[False] / n_quoted[False]
    report.add(f"{language}: half invented ones by their quote marked", share)


def measure_restated(report: Report, half: Half, folder: Path, shown: str) -> None:
    """Print which statements hold that repeat their question, with its answer or another one."""
    n, held, quoted = Counter[str](), Counter[str](), Counter[str]()
    made = restated_answers(folder, half.language, is_tuning=half.is_tuned, seed=SEED)
    for one in made:
        is_held = holds(verify_answer(one.claim, one.passages, question=one.question))
        n[one.kind] += 1
        held[one.kind] += is_held
        doc_id, quote = one.source
        tag = f'{one.claim[:-1]}<cite doc_id="{doc_id}" quote="{html.escape(quote)}"></cite>.'
        quoted[one.kind] += holds(verify_answer(tag, one.passages, question=one.question))
        if one.kind == shown and is_held != (one.kind in (RIGHT, ANSWERING)):
            print(f"    {one.claim!r} for {one.question!r}")
    start = f"{half.language}: answers that repeat their question"
    for kind, least, most in (
        (RIGHT, 0.85, None),
        (OF_PASSAGE, None, 0.05),
        (OF_ARTICLE, None, 0.05),
        (ELSEWHERE, None, 0.05),
    ):
        report.add(f"{start}, {kind}: held", held[kind] / n[kind], least=least, most=most)
    for kind, least, most in ((RIGHT, 0.85, None), (OF_PASSAGE, None, 0.05)):
        report.add(
            f"{start}, {kind}: held by the quote", quoted[kind] / n[kind], least=least, most=most
        )
    share = 1 - held[ANSWERING] / n[ANSWERING]
    report.add(f"{half.language}: true sentences that answer marked", share, most=0.05)


def measure_translations(report: Report, zh: Half, en: Half) -> None:
    """Print which translations of a quote are taken to contradict it."""
    n = n_doubted = 0
    for one, other in ((zh, en), (en, zh)):
        for number, claim, sentence in translated_claims(one, other):
            answer = cited(claim, other, number, sentence)
            if answer.citations[0].verdict == "verified":
                n, n_doubted = n + 1, n_doubted + (not holds(answer))
    report.add("translations by their quote marked", n_doubted / n, most=0.02)


def measure_free_claims(report: Report, folder: Path, *, is_tuning: bool) -> None:
    """Print how freely worded claims of SciFact fare with and without their abstract."""
    count = Counter[str]()
    for text, passages, quotes, kind in free_claims(folder, is_tuning=is_tuning, seed=SEED):
        count[kind] += 1
        count[f"{kind} held"] += holds(verify_answer(text, passages))
        tags = (f'<cite doc_id="doc_01" quote="{html.escape(quote)}"></cite>' for quote in quotes)
        count[f"{kind} quoted"] += holds(verify_answer(text + "".join(tags), passages))
    report.add("scifact: freely worded claims held", count["SUPPORT held"] / count["SUPPORT"])
    share = 1 - count["SUPPORT quoted"] / count["SUPPORT"]
    report.add("scifact: freely worded claims by their quotes marked", share)
    share = 1 - count["CONTRADICT held"] / count["CONTRADICT"]
    report.add("scifact: freely worded refuted claims marked", share)
    share = 1 - count["foreign held"] / count["foreign"]
    report.add("scifact: claims of elsewhere marked", share, least=0.95)


def measure_time(report: Report, half: Half) -> None:
    """Print what the verdicts of ten sentences over twelve passages cost, read anew each time."""
    rng, times = random.Random(SEED), []
    for n in range(N_TIMED):
        first = n * N_PASSAGES % (len(half.passages) - N_PASSAGES)
        numbers = range(first, first + N_PASSAGES)
        # Other words each time, so that nothing is kept from the time before.
        texts = [half.passages[number].text + f" {n} {number}." for number in numbers]
        sentences = [text for number, text in half.sentences if number in numbers]
        answer = " ".join(rng.choice(sentences) for _ in range(N_SENTENCES))
        passages = as_passages(texts)
        begun = time.perf_counter()
        verify_answer(answer, passages)
        times.append((time.perf_counter() - begun) * 1e3)
    name = f"{half.language}: ten sentences, twelve passages, p95 ms"
    report.add(name, float(np.percentile(times, 95)), most=15)


def main(arguments: list[str] | None = None) -> None:
    """Measure everything and keep the row, unless only the halves to tune on are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the test sets")
    parser.add_argument("--tune", action="store_true", help="the other halves; keeps nothing")
    parser.add_argument("--show", default="", metavar="KIND", help="print that kind's failures")
    chosen = parser.parse_args(arguments)
    report, halves = Report("grounding"), []
    for language in LANGUAGES:
        tuned_on, held_out = read_halves(chosen.data / f"xquad-{language}", language)
        half = tuned_on if chosen.tune else held_out
        halves.append(half)
        measure_time(report, half)
        measure_contradictions(report, half, chosen.show)
        measure_statements(report, half, chosen.show)
        measure_restated(report, half, chosen.data / f"xquad-{language}", chosen.show)
    measure_translations(report, *sorted(halves, key=lambda half: half.language, reverse=True))
    measure_free_claims(report, chosen.data / "scifact", is_tuning=chosen.tune)
    if not chosen.tune:
        report.save()


if __name__ == "__main__":
    main()
