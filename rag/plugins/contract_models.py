"""Contracts of the kinds that settings choose: rerankers, embedding and chat models.

A subclass named ``Test…`` sets ``plugin``, and ``options`` where it needs some; of the kinds that
load models, ``model`` too.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from rag.core.ports import ChatRequest
from rag.core.types import ChatReply, Message
from rag.plugins.contract_plugin import PluginContract, odd_texts

SAID = (
    "The pump is serviced every 30 days.",
    "蓝鲸水泵的保修期为两年。",
    "Bake the cake for forty minutes.",
)


class RerankerContract(PluginContract):
    """One score of 0 to 1 for each text, in their order. To be set: ``plugin``."""

    kind = "reranker"
    timeout_s = 10.0

    def test_each_text_has_a_score_in_its_place(self) -> None:
        made = self.make()
        for query in ("How often is the pump serviced?", *odd_texts()):
            scores = made.rerank(query, [*SAID, *odd_texts()], timeout_s=self.timeout_s)
            assert len(scores) == len(SAID) + len(odd_texts())
            assert all(isinstance(score, float) and 0 <= score <= 1 for score in scores)

    def test_no_texts_have_no_scores(self) -> None:
        assert self.make().rerank("pump", [], timeout_s=self.timeout_s) == []

    def test_threads_get_equal_scores(self) -> None:
        made = self.make()

        def scored(_: int) -> list[float]:
            scores: list[float] = made.rerank("pump", SAID, timeout_s=self.timeout_s)
            return scores

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(scored, range(8)))
        assert all(scores == found[0] for scores in found)

    def test_a_remote_one_names_what_is_paid_for(self) -> None:
        if getattr(self.plugin, "is_remote", False):
            assert ":" in self.make().id, "usage is recorded under `id`, provider:model"


class EmbeddingContract(PluginContract):
    """Unit vectors that depend on the text alone. To be set: ``plugin`` and ``model``."""

    kind = "embedding"
    model = ""

    def test_it_names_what_makes_its_vectors(self) -> None:
        loaded = self.load()
        assert loaded.id == f"{self.plugin.name}:{self.model}"
        assert loaded.version and loaded.dim > 0 and loaded.max_tokens > 0

    def test_vectors_are_rows_of_unit_length(self) -> None:
        loaded = self.load()
        texts = [text for text in (*SAID, *odd_texts()) if text.strip()]
        rows = loaded.embed_passages(texts)
        assert rows.dtype == np.float32 and rows.shape == (len(texts), loaded.dim)
        assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-4)
        assert loaded.embed_passages([]).shape == (0, loaded.dim)
        query = loaded.embed_query(SAID[0])
        assert query.dtype == np.float32 and query.shape == (loaded.dim,)
        assert abs(float(np.linalg.norm(query)) - 1) < 1e-4

    def test_a_vector_does_not_depend_on_its_neighbours(self) -> None:
        loaded = self.load()
        together = loaded.embed_passages(SAID)
        apart = np.concatenate([loaded.embed_passages([text]) for text in SAID])
        assert np.array_equal(together, apart)

    def test_tokens_are_counted_where_they_are_located(self) -> None:
        tokenizer = self.load().tokenizer
        for text in (*SAID, *odd_texts()):
            spans = tokenizer.offsets(text)
            assert tokenizer.count(text) == len(spans)
            assert all(0 <= start <= end <= len(text) for start, end in spans)

    def load(self) -> Any:
        """Return the embedder of ``model``."""
        return self.make().load(self.model)


class ChatContract(PluginContract):
    """Answers whole and in pieces alike. To be set: ``plugin`` and ``model``."""

    kind = "chat"
    model = ""

    def test_it_says_who_answers(self) -> None:
        loaded = self.load()
        assert loaded.id == f"{self.plugin.name}:{self.model}"
        assert isinstance(loaded.has_tools, bool)

    def test_the_pieces_are_the_answer(self) -> None:
        request = self.request()
        reply = self.load().generate(request)
        assert isinstance(reply, ChatReply) and reply.finish_reason

        async def pieces() -> list[ChatReply]:
            return [piece async for piece in self.load().stream(request)]

        streamed = asyncio.run(pieces())
        assert "".join(piece.text for piece in streamed) == reply.text
        assert streamed[-1].finish_reason == reply.finish_reason

    def request(self) -> ChatRequest:
        """Return what is asked."""
        question = "How often is the pump serviced?"
        return ChatRequest(
            [Message("user", question)], question=question, passages=[("doc_1", SAID[0])]
        )

    def load(self) -> Any:
        """Return the chat model of ``model``."""
        return self.make().load(self.model)
