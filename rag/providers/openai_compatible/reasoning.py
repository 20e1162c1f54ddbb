"""Reasoning filter: removes a model's <think> blocks from a streamed answer.

DeepSeek-R1, QwQ and Qwen3 behind servers without a reasoning parser write <think>…</think> into
the answer itself; a tag may come in any number of pieces.
"""

from __future__ import annotations

OPENING, CLOSING = "<think>", "</think>"


class ThoughtFilter:
    """Drops one <think> block at the very start of an answer; text about the tag stays.

    ``is_thinking`` True is for models whose prompt already opened the block.
    """

    def __init__(self, *, is_thinking: bool = False) -> None:
        self._state = "thinking" if is_thinking else "start"
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return what of the text so far is answer and was not returned before."""
        self._held += piece
        if self._state == "start":
            self._leave_start()
        if self._state == "thinking":
            _, found, rest = self._held.partition(CLOSING)
            if not found:
                # Only the tail can be the beginning of the tag.
                self._held = self._held[-len(CLOSING) :]
                return ""
            self._held, self._state = rest, "after"
        if self._state == "after":
            self._held = self._held.lstrip()
            if not self._held:
                return ""
            self._state = "answer"
        if self._state == "start":
            return ""
        ready, self._held = self._held, ""
        return ready

    def end(self) -> str:
        """Return what was held back and turned out to be answer."""
        return self._held if self._state == "start" else ""

    def _leave_start(self) -> None:
        text = self._held.lstrip()
        if text.startswith(OPENING):
            self._state, self._held = "thinking", text[len(OPENING) :]
        elif not OPENING.startswith(text):
            self._state = "answer"
