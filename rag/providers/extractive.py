"""Answers without a language model: quotes whole sentences. In: passages. Out: cited quotes."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence

from rag.core.ports import ChatRequest
from rag.core.types import ChatReply
from rag.stages.sentences import sentence_ends
from rag.stages.terms import index_terms, is_han, query_terms

MAX_SENTENCES = 3
MAX_CANDIDATES = 60
CROSS_SCRIPT = 0.75
# A sentence worth quoting beside the best one reaches this part of its score.
KEEP = 0.8
MAX_CHARS = 600
NOTICES = {
    True: "没有配置聊天模型，以下按原文引用相关句子。要生成回答，请设置 RAG_CHAT_MODEL。",
    False: "No chat model is configured, so sentences are quoted as they stand. "
    "Set RAG_CHAT_MODEL to have answers written.",
}
NOTHING = {
    True: "在所选资料中没有找到相关内容。",
    False: "Nothing relevant was found in the chosen stores.",
}

Score = Callable[[str, list[str]], list[float]]


class ExtractiveChatModel:
    """The ChatModel port without a model: the sentences nearest to the question, verbatim.

    ``score`` gives the likeness of each sentence to the question by meaning, which finds an
    answer in another language; without it only shared words count.
    """

    id = "extractive:sentences"

    def __init__(self, score: Score | None = None) -> None:
        self._score = score

    def generate(self, request: ChatRequest) -> ChatReply:
        """Return up to three cited sentences and the notice that no model is configured."""
        return ChatReply(
            "\n".join(self._sentences(request)), model=self.id, finish_reason="stop",
            notice=NOTICES[is_han(request.question)],
        )  # fmt: skip

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        """Yield sentence by sentence; the last piece carries the notice."""
        for number, sentence in enumerate(self._sentences(request)):
            yield ChatReply(f"\n{sentence}" if number else sentence, model=self.id)
        yield ChatReply(
            "", model=self.id, finish_reason="stop", notice=NOTICES[is_han(request.question)]
        )

    def _sentences(self, request: ChatRequest) -> list[str]:
        candidates = _candidates(request.passages)
        if not candidates:
            return [NOTHING[is_han(request.question)]]
        ranked = self._ranked(request.question, candidates)
        best = ranked[0][0]
        chosen = [item for item in ranked[:MAX_SENTENCES] if item[0] >= KEEP * best]
        return [
            f'<cite doc_id="{doc_id}" quote="{html.escape(sentence)}">{sentence}</cite>'
            for _, doc_id, sentence in chosen
        ]

    def _ranked(
        self, question: str, candidates: list[tuple[str, int, str]]
    ) -> list[tuple[float, str, str]]:
        sentences = [sentence for _, _, sentence in candidates]
        by_words = _overlap(question, sentences)
        by_meaning = self._by_meaning(question, sentences, by_words)
        language = is_han(question)
        total = []
        for i, (_, rank, sentence) in enumerate(candidates):
            # A sentence in another script can share no words; its meaning stands in for them.
            is_foreign = is_han(sentence) != language
            words = max(by_words[i], CROSS_SCRIPT * by_meaning[i]) if is_foreign else by_words[i]
            total.append(0.7 * by_meaning[i] + 0.3 * words + 0.1 / (1 + rank))
        order = sorted(range(len(sentences)), key=lambda i: -total[i])
        return [(total[i], candidates[i][0], sentences[i]) for i in order]

    def _by_meaning(
        self, question: str, sentences: list[str], by_words: list[float]
    ) -> list[float]:
        """Return likenesses from 0 (the least of the candidates) to 1; by words without a scorer."""
        if self._score is None:
            return by_words
        near = sorted(range(len(sentences)), key=lambda i: (-by_words[i], i))[:MAX_CANDIDATES]
        values = self._score(question, [sentences[i] for i in near])
        low, high = min(values), max(values)
        likeness = [0.0] * len(sentences)
        for i, value in zip(near, values, strict=True):
            likeness[i] = (value - low) / (high - low) if high > low else 1.0
        return likeness


def _candidates(passages: Sequence[tuple[str, str]]) -> list[tuple[str, int, str]]:
    """Return (document, rank of its passage, sentence) without repetitions."""
    seen: set[str] = set()
    found = []
    for rank, (doc_id, text) in enumerate(passages):
        start = 0
        for end in sentence_ends(text):
            sentence, start = text[start:end].strip(), end
            is_heading = sentence.startswith("#") or sentence.startswith("| ---")
            if (
                len(sentence) > 5
                and len(sentence) <= MAX_CHARS
                and not is_heading
                and sentence not in seen
            ):
                seen.add(sentence)
                found.append((doc_id, rank, sentence))
    return found


def _overlap(question: str, sentences: list[str]) -> list[float]:
    """Return the share of the question's words, by idf over the sentences, in each of them."""
    terms = [index_terms(sentence) for sentence in sentences]
    frequency = Counter(term for counts in terms for term in counts)
    asked = {
        term: weight * math.log(1 + (len(terms) + 1) / (frequency[term] + 0.5))
        for term, weight in query_terms(question).items()
    }
    whole = sum(asked.values()) or 1.0
    return [
        sum(value for term, value in asked.items() if term in counts) / whole for counts in terms
    ]
