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
) -> Iterator[tuple[str, tuple[Passage, ...], str]]:
    """Yield each claim with its abstract among ten others' and the id of that one.

    Then once more among abstracts that do not support it, with an empty id. Claims with an even
    number are those to tune on.
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
        for name in row["evidence"]:
            given = [texts[name], *(texts[other] for other in rng.sample(ids, N_PASSAGES - 1))]
            yield row["text"], as_passages(given), "doc_01"
        others = [other for other in rng.sample(ids, N_PASSAGES) if other not in row["evidence"]]
        yield row["text"], as_passages([texts[other] for other in others]), ""
