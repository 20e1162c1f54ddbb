"""Where a client wants the text to end. In: pieces, stop sequences. Out: what comes before."""

from __future__ import annotations

from collections.abc import Sequence


class StopCut:
    """Ends a text before the first stop sequence that is complete, in whatever pieces it comes."""

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._stops = tuple(filter(None, stops))
        self._held = ""
        self.is_cut = False

    def feed(self, text: str) -> str:
        """Return what is certainly shown; the beginning of a stop sequence is held back."""
        if self.is_cut:
            return ""
        self._held += text
        ends = [(at + len(stop), at) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if ends:
            self.is_cut = True
            return self._held[: min(ends)[1]]
        keep = max((_begun(self._held, stop) for stop in self._stops), default=0)
        shown, self._held = self._held[: len(self._held) - keep], self._held[-keep:] if keep else ""
        return shown

    def finish(self) -> str:
        """Return what was held back and has become no stop sequence."""
        rest, self._held = ("" if self.is_cut else self._held), ""
        return rest


def _begun(text: str, stop: str) -> int:
    """Return the length of the longest beginning of ``stop`` that ``text`` ends with."""
    for n in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:n]):
            return n
    return 0
