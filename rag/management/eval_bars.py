"""Progress of an evaluation in a terminal, on the error stream."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm


class EvalBars:
    """One progress bar a stage."""

    def __init__(self) -> None:
        self._bar: tqdm[Any] | None = None
        self._stage = ""

    def __enter__(self) -> EvalBars:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, stage: str, n: int, total: int) -> None:
        """Move the bar of ``stage`` on by ``n``."""
        if self._bar is None or stage != self._stage:
            self.__exit__()
            self._bar = tqdm(total=total, desc=stage, unit="text", file=sys.stderr)
            self._stage = stage
        self._bar.update(n)
