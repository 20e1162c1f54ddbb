"""Result of a consistency check: level, text, what to do, facts, and its repair."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that is not as it should be, or is worth knowing.

    ``level`` is error (answers are wrong or will fail), warning (slow or soon wrong) or note.
    ``how`` says whether everything was looked at or a sample. ``fix`` repairs it and says what it
    did; None where a person must decide.
    """

    check: str
    level: str
    what: str
    todo: str = ""
    how: str = "exact"
    facts: dict[str, Any] = field(default_factory=dict)
    fix: Callable[[], str] | None = field(default=None, repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        return {
            "check": self.check,
            "level": self.level,
            "what": self.what,
            "todo": self.todo,
            "how": self.how,
            "is_fixable": self.fix is not None,
            "facts": self.facts,
        }


Check = Callable[[], Iterator[CheckResult]]
