"""Language centring of multilingual-e5 vectors: the language's direction is removed.

multilingual-e5 puts texts of one language close together whatever they say: a Chinese question is
nearer to any Chinese text than to its own answer in English. The means of English and of Chinese
texts span a line along which the language lies (projected on it, English paragraphs fall within
-0.1 and 0.3, Chinese ones within 0.9 and 1.1, an English text under a Chinese heading between).
What a vector has along the line is removed, and with it what all texts have in common. The vector
itself says where on the line it lies, so mixed texts need no rule and no script is detected.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rag.providers.local_models import unit_vector

Role = Literal["query", "passage"]
ROLES: tuple[Role, ...] = ("query", "passage")
CENTRING_VERSION = 1
"""Goes up whenever the means or the formula change."""
MEANS_PATH = Path(__file__).with_name("means.npy")


def centre(vector: NDArray[np.float32], role: Role) -> NDArray[np.float32]:
    """Return ``vector`` less the nearest point of the line through the role's means, at length 1.

    All-but-the-top (Mu and Viswanath 2018) with the direction taken from translated sentences.
    """
    origin, direction = _lines()[role]
    moved = vector - origin
    return unit_vector(moved - float(moved @ direction) * direction)


@lru_cache(maxsize=1)
def _lines() -> dict[Role, tuple[NDArray[np.float32], NDArray[np.float32]]]:
    means: NDArray[np.float32] = np.load(MEANS_PATH)  # [role, English or Chinese, dim]
    return {
        role: (means[i, 0], unit_vector(means[i, 1] - means[i, 0])) for i, role in enumerate(ROLES)
    }
