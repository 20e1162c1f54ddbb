"""The source ``glossary``. In: a question. Out: the entries whose terms occur in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from rag.core.hits import Hit
from rag.core.options import option
from rag.core.plugins import register
from rag.core.sources import SourceQuery, SourceResult


@register("source")
class Glossary:
    """Entries of a glossary, the longest term first."""

    name = "glossary"
    hosts = ()
    label = "Glossary"

    @dataclass(frozen=True)
    class Options:
        top_k: int = option(5, help="At most so many entries.", minimum=1, maximum=50)
        terms: dict[str, str] = option({}, help="Entries of your own: the term and its meaning.")

    def __init__(self, options: Options) -> None:
        self.options = options

    def retrieve(self, query: SourceQuery) -> SourceResult:
        """Return the entries whose term stands in the question, upper or lower case."""
        entries = {**shipped(), **self.options.terms}
        asked, found = query.text.casefold(), []
        for term in sorted(entries, key=len, reverse=True):
            query.deadline.check()
            if term.casefold() in asked:
                found.append(term)
        query.deadline.check()
        hits = (self._hit(term, entries[term], rank) for rank, term in enumerate(found, 1))
        return SourceResult(tuple(hits)[: self.options.top_k])

    def _hit(self, term: str, meaning: str, rank: int) -> Hit:
        return Hit(
            text=f"{term}: {meaning}",
            rank=rank,
            file_name="glossary.json",
            content_type="term",
            source=self.name,
            external_id=term,
            data={"term": term, "meaning": meaning},
        )


@cache
def shipped() -> dict[str, str]:
    """Return the entries that come with the package."""
    text = files("citable_glossary").joinpath("glossary.json").read_text(encoding="utf-8")
    entries: dict[str, str] = json.loads(text)
    return entries
