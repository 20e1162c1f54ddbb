"""Means for the centring, computed from sentences.txt into means.npy.

Run ``python -m rag.providers.e5.make_means`` after changing the sentences, and raise
``CENTRING_VERSION``. The sentences are translations of each other, so that the two means of a role
differ by language and not by subject.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rag.providers.e5.centring import MEANS_PATH, ROLES
from rag.providers.e5.embedder import E5Embedder

SENTENCES_PATH = Path(__file__).with_name("sentences.txt")
LANGUAGES = ("english", "chinese")


def read_sentences(path: Path = SENTENCES_PATH) -> dict[str, list[str]]:
    """Return the sentences of each section, named ``language role``; blank lines are skipped."""
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            current = sections.setdefault(line.strip("[] "), [])
        elif line.strip():
            current.append(line.strip())
    return sections


def compute_means(embedder: E5Embedder) -> NDArray[np.float32]:
    """Return float32 [role, language, dim], the mean raw vector of each section."""
    sections = read_sentences()
    means = [
        [
            embedder.embed_raw(sections[f"{language} {role}"], role).mean(axis=0)
            for language in LANGUAGES
        ]
        for role in ROLES
    ]
    return np.asarray(means, dtype=np.float32)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        np.save(MEANS_PATH, compute_means(E5Embedder("fp32", cache_dir=Path(folder))))
    print(f"wrote {MEANS_PATH}")
