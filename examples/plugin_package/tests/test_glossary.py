"""The package keeps to the contracts, and finds what it should."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from citable_glossary.chat import FirstSource
from citable_glossary.connector import Entries
from citable_glossary.embedding import Letters
from citable_glossary.enhancer import PlainWords
from citable_glossary.parser import Subtitles
from citable_glossary.reranker import WordOverlap
from citable_glossary.source import Glossary
from citable_glossary.splitter import Paragraphs
from citable_glossary.tool import ExplainTerm
from citable_glossary.web_search import WebSearch

from rag.core.deadline import Deadline
from rag.core.errors import ProviderError
from rag.core.sources import FetchReply, FetchRequest
from rag.plugins.contract_connector import ConnectorContract
from rag.plugins.contract_documents import ParserContract, SplitterContract
from rag.plugins.contract_enhancer import EnhancerContract
from rag.plugins.contract_models import ChatContract, EmbeddingContract, RerankerContract
from rag.plugins.contract_source import Ask, LentPorts, SourceContract
from rag.plugins.contract_tool import ToolContract


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


class SearchServer(LentPorts):
    """The search server that the house's guarded fetch would reach."""

    def fetch(self, request: FetchRequest, *, deadline: Deadline) -> FetchReply:
        """Answer by the question."""
        deadline.check()
        question = request.params["q"]
        while question == "slow":
            time.sleep(0.02)
            deadline.check()
        if question == "down":
            raise ProviderError("The server answered 502.")
        page = {"title": "Drip lines", "url": "https://garden.example/drip", "content": question}
        results = [page] * 5 if "drip" in question else []
        return FetchReply(200, {}, json.dumps({"results": results}).encode(), request.url)


class TestWebSearch(SourceContract):
    plugin = WebSearch
    options = {"endpoint": "https://searx.example/search", "top_k": 2}
    has_access_rules = False

    def ports(self) -> Any:
        return SearchServer(self.secrets)

    def query_with_hits(self) -> str:
        return "Which drip line?"

    def query_without_hits(self) -> str:
        return "How do I reset my password?"

    def slow_query(self) -> str:
        return "slow"

    def failing_query(self) -> str:
        return "down"


class TestExplainTerm(ToolContract):
    plugin = ExplainTerm
    options = {"term": "ec"}
    has_access_rules = False

    def failing_options(self) -> Mapping[str, Any]:
        return {"term": "no such term"}


class TestEntries(ConnectorContract):
    plugin = Entries

    def missing_options(self) -> Mapping[str, Any]:
        return {"begin": "no such term"}


class TestPlainWords(EnhancerContract):
    plugin = PlainWords


class TestWordOverlap(RerankerContract):
    plugin = WordOverlap

    def test_shared_words_count(self) -> None:
        texts = ["a drip line", "the drip line waters", "nothing"]
        scores = self.make().rerank("the drip line", texts, timeout_s=1)
        assert scores == [2 / 3, 1.0, 0.0]


class TestLetters(EmbeddingContract):
    plugin = Letters
    model = "64"


class TestFirstSource(ChatContract):
    plugin = FirstSource
    model = "whole"


class TestSubtitles(ParserContract):
    plugin = Subtitles

    def example(self) -> bytes:
        first = "1\n00:00:01,000 --> 00:00:02,500\nThe drip line\nis open.\n\n"
        return f"{first}2\n00:00:03,000 --> 00:00:04,000\n育苗\n".encode()

    def test_numbers_and_times_are_left_out(self, tmp_path: Path) -> None:
        assert self.parse(tmp_path, self.example()).text == "The drip line is open. 育苗"


class TestParagraphs(SplitterContract):
    plugin = Paragraphs
