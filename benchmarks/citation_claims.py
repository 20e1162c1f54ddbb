"""Citations benchmark, its paraphrased claims from SciFact, with ten abstracts each."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from benchmarks.citation_quotes import as_passages
from rag.stages.prompting.context import Passage

N_PASSAGES = 10


def free_claims(
    folder: Path, *, is_tuning: bool, seed: int
) -> Iterator[tuple[str, tuple[Passage, ...], list[str], str]]:
    """Yield each claim with its evidence, an abstract among ten, quotes of it, and what it does.

    It does SUPPORT or CONTRADICT. Then once more among abstracts that say nothing of it, as
    ``foreign``. Claims with an even number are those to tune on.
    """
    rng = random.Random(seed)
    texts = {}
    with (folder / "corpus.jsonl").open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            texts[row["_id"]] = row["text"]
    ids = sorted(texts)
    with (folder / "queries.jsonl").open(encoding="utf-8") as lines:
        claims = [row for row in map(json.loads, lines) if (int(row["_id"]) % 2 == 0) == is_tuning]
    for row in claims:
        for name, (evidence, *_) in row["evidence"].items():
            given = [texts[name], *(texts[other] for other in rng.sample(ids, N_PASSAGES - 1))]
            yield row["text"], as_passages(given), evidence.get("quotes", []), evidence["label"]
        others = [other for other in rng.sample(ids, N_PASSAGES) if other not in row["evidence"]]
        yield row["text"], as_passages([texts[other] for other in others]), [], "foreign"
