"""Data sources that are quick, empty, slow, stubborn or broken, for tests of running several."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from django.utils.translation import get_language

from rag.core.errors import InvalidInputError, ProviderError
from rag.core.hits import Hit
from rag.core.options import option
from rag.core.sources import SourceQuery, SourceResult


class PlayedSource:
    """Plays the part that its option names; ``tries`` counts the calls of each subject."""

    name = "played"
    label = "Played"
    tries: dict[str, int] = {}
    released = threading.Event()

    @dataclass(frozen=True)
    class Options:
        """The part to play."""

        part: str = option(help="What to do.")
        seconds: float = option(0.0, help="How long it takes.")
        subject: str = option("", help="Whose tries are counted.")

    def __init__(self, options: Options) -> None:
        self._options = options

    def retrieve(self, query: SourceQuery) -> SourceResult:
        self.tries[self._options.subject] = self.tries.get(self._options.subject, 0) + 1
        found: SourceResult = getattr(self, f"_{self._options.part}")(query)
        return found

    def _quick(self, query: SourceQuery) -> SourceResult:
        time.sleep(self._options.seconds)
        said = f"{query.text} {query.values.get('region', '')}".strip()
        return SourceResult((Hit(text=said, rank=1, source=self.name),), ("a note",))

    def _empty(self, query: SourceQuery) -> SourceResult:
        return SourceResult()

    def _obedient(self, query: SourceQuery) -> SourceResult:
        woken = threading.Event()
        with query.deadline.on_cancel(woken.set):
            woken.wait(query.deadline.remaining_s)
        query.deadline.check()
        return SourceResult()

    def _stubborn(self, query: SourceQuery) -> SourceResult:
        self.released.wait(60)
        return SourceResult((Hit(text="too late", rank=1),))

    def _failing(self, query: SourceQuery) -> SourceResult:
        raise ProviderError("The service is down.", hint="Wait.")

    def _recovering(self, query: SourceQuery) -> SourceResult:
        if self.tries[self._options.subject] < 3:
            raise ProviderError("The service is down.")
        return self._quick(query)

    def _refusing(self, query: SourceQuery) -> SourceResult:
        raise InvalidInputError("The question is odd.")

    def _broken(self, query: SourceQuery) -> SourceResult:
        return {}["no such key"]  # type: ignore[no-any-return]

    def _exiting(self, query: SourceQuery) -> SourceResult:
        raise SystemExit(3)

    def _nothing(self, query: SourceQuery) -> Any:
        return None

    def _language(self, query: SourceQuery) -> SourceResult:
        return SourceResult((Hit(text=str(get_language()), rank=1),))
