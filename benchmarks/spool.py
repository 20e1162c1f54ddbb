"""Spool of synthetic chunks on disk, so that making them costs a load nothing."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from tqdm import tqdm

from benchmarks.synthetic import DIM, PER_DOCUMENT, MadePassage, SyntheticCorpus

PORTION = PER_DOCUMENT * 1000


class Spool:
    """``n`` passages; ``vectors`` [n, 384] are float16, as the database keeps them."""

    def __init__(self, folder: Path, corpus: SyntheticCorpus, n: int) -> None:
        self.n = n
        self._files: list[Path] = []
        self.vectors: NDArray[np.float16] = open_memmap(
            folder / "vectors.npy", "w+", dtype=np.float16, shape=(n, DIM)
        )
        at = 0
        with tqdm(total=n, desc="making passages", leave=False) as bar:
            while at < n:
                portion = list(corpus.passages(min(PORTION, n - at)))
                for passage in portion:
                    self.vectors[at] = passage.vector
                    at += 1
                path = folder / f"texts-{at}.pickle"
                texts = [(one.document, one.topic, one.text) for one in portion]
                path.write_bytes(pickle.dumps(texts))
                self._files.append(path)
                bar.update(len(portion))

    def __iter__(self) -> Iterator[MadePassage]:
        at = 0
        for path in self._files:
            for document, topic, text in pickle.loads(path.read_bytes()):
                yield MadePassage(document, topic, text, self.vectors[at].astype(np.float32))
                at += 1

    def pick(self, numbers: Sequence[int]) -> list[MadePassage]:
        """Return the passages with these numbers, in ascending order."""
        wanted = set(numbers)
        return [passage for number, passage in enumerate(self) if number in wanted]
