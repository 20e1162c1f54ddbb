"""The package keeps to the contracts, and finds what it should."""

from __future__ import annotations

from citable_glossary.enhancer import PlainWords
from citable_glossary.source import Glossary

from rag.plugins.contract_enhancer import EnhancerContract
from rag.plugins.contract_source import Ask, SourceContract


class TestGlossary(SourceContract):
    plugin = Glossary
    options = {"top_k": 2, "terms": {"drip": "Water that falls in drops."}}
    has_access_rules = False
    is_never_slow = "it looks through a dictionary in memory"
    never_fails = "there is nothing behind it"

    def query_with_hits(self) -> Ask:
        return Ask("Which EC for a DRIP line, 育苗?")

    def query_without_hits(self) -> str:
        return "How do I reset my password?"

    def test_longer_terms_come_first_and_are_not_too_many(self) -> None:
        hits = self.make().retrieve(self.query(self.query_with_hits())).hits
        assert [hit.external_id for hit in hits] == ["drip line", "drip"]


class TestPlainWords(EnhancerContract):
    plugin = PlainWords
