"""Okapi BM25 over texts in memory (Robertson and Zaragoza, 2009), by the terms of the index."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from rag.stages.text.terms import content_terms, index_terms

K1, B = 1.2, 0.75
_LOOK_UP_EVERY = 256


def bm25_scores(
    question: str, texts: Sequence[str], *, check: Callable[[], None] | None = None
) -> list[float]:
    """Return the score of each text, 0 where it has none of the question's terms.

    ``check`` is called every now and then and may raise to end the work.
    """
    asked = content_terms(question)
    counts: list[dict[str, int]] = []
    lengths: list[int] = []
    frequency: Counter[str] = Counter()
    for number, text in enumerate(texts):
        if check is not None and number % _LOOK_UP_EVERY == 0:
            check()
        terms = index_terms(text)
        # What was not asked for is not kept: a large file has millions of terms.
        counts.append({term: terms[term] for term in asked if term in terms})
        lengths.append(max(1, sum(terms.values())))
        frequency.update(counts[-1].keys())
    mean = sum(lengths) / len(lengths) if lengths else 1.0
    idf = {
        term: weight * math.log(1 + (len(texts) - frequency[term] + 0.5) / (frequency[term] + 0.5))
        for term, weight in asked.items()
    }
    return [
        sum(idf[t] * n * (K1 + 1) / (n + K1 * (1 - B + B * length / mean)) for t, n in held.items())
        for held, length in zip(counts, lengths, strict=True)
    ]
