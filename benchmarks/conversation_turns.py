"""Dialogues of the conversation benchmark: turns, what each must say standing alone, two halves."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).resolve().parent / "data" / "conversation.txt"
SEED = 16
KINDS = {"O": "omitted", "X": "parallel", "P": "pronoun", "S": "switch"}
# Without a pronoun: the subject is left out, or another takes its place.
WITHOUT_PRONOUN = ("omitted", "parallel")


@dataclass(frozen=True, slots=True)
class MadeTurn:
    """A question after others; alone it holds all of ``must`` and nothing of ``must_not``."""

    earlier: tuple[str, ...]
    question: str
    kind: str
    must: tuple[str, ...]
    must_not: tuple[str, ...]

    def holds(self, text: str) -> bool:
        """Return whether a text says what the question means without the conversation."""
        folded = text.casefold()
        lost = [word for word in self.must if word.casefold() not in folded]
        return not lost and not any(word.casefold() in folded for word in self.must_not)


def read_turns(half: str) -> list[MadeTurn]:
    """Return the turns of one half, ``tune`` or ``report``; whole dialogues are drawn by lot."""
    dialogues = [block for block in FILE.read_text(encoding="utf-8").split("#\n") if block.strip()]
    random.Random(SEED).shuffle(dialogues)
    middle = len(dialogues) // 2
    chosen = dialogues[:middle] if half == "tune" else dialogues[middle:]
    return [turn for dialogue in chosen for turn in _turns(dialogue)]


def _turns(dialogue: str) -> list[MadeTurn]:
    found: list[MadeTurn] = []
    said: list[str] = []
    for line in dialogue.strip().splitlines():
        kind, _, rest = line.partition(": ")
        question, *words = rest.split(" // ")
        if kind in KINDS:
            must, must_not = (_words(part) for part in [*words, ""][:2])
            found.append(MadeTurn(tuple(said), question, KINDS[kind], must, must_not))
        said.append(question)
    return found


def _words(part: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in part.split(",") if word.strip())
