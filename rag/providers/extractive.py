"""Extractive chat model: quotes whole sentences with citations; no language model."""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from rag.core.ports import ChatRequest
from rag.core.types import ChatReply
from rag.stages.citing.citation_markers import quote_marker, unmarked
from rag.stages.citing.locate import locate_quote
from rag.stages.query.file_question import parse_document_question
from rag.stages.text.normalize import normalize_quote
from rag.stages.text.sentences import sentence_spans
from rag.stages.text.terms import index_terms, is_han, query_terms

MAX_SENTENCES = 3
# How many sentences are compared by meaning: each costs some milliseconds.
MAX_COMPARED = 24
# A sentence beside the best one must come this near to its score.
KEEP = 0.8
# A sentence with less of the question's words and with a lower cosine is no answer. Measured on
# XQuAD with the default embedder: answers reach 0.23 or 0.27 in 98 of 100 cases, sentences of other
# articles in 15 to 20. Where a model's cosines are all higher, nothing is refused by them.
MIN_SHARED, MIN_COSINE = 0.2, 0.27
RANK_WEIGHT, MEANING_WEIGHT = 0.1, 0.5
MIN_LETTERS, MAX_CHARS = 4, 600
NOTICES = {
    True: "未配置对话模型，因此以下逐字摘引资料原句。要得到撰写的回答，请设置 RAG_CHAT_MODEL。",
    False: "No chat model is configured, so sentences are quoted as they stand. "
    "Set RAG_CHAT_MODEL to have answers written.",
}
NOTHING = {True: "没有找到相关内容。", False: "Nothing relevant was found."}
_DOC_ID = re.compile(r"doc_\d+")

Score = Callable[[str, list[str]], Sequence[float]]


@dataclass(frozen=True, slots=True)
class _Candidate:
    doc_id: str
    rank: int
    passage: str
    text: str
    terms: Mapping[str, int]
    is_han: bool


class ExtractiveChatModel:
    """The ChatModel port without a model: the sentences nearest to the question, verbatim.

    ``score`` gives the cosine of each sentence to the question by meaning, which finds an answer
    in other words or another language; without it shared words count, and a question in another
    script than the passages, which share none, gets the first sentence of the first one.
    """

    id = "extractive:sentences"
    has_tools = False

    def __init__(self, score: Score | None = None) -> None:
        self._score = score

    def generate(self, request: ChatRequest) -> ChatReply:
        """Return up to three cited sentences and the notice that no model is configured."""
        return ChatReply(
            "\n".join(self._answer(request)),
            model=self.id,
            finish_reason="stop",
            notice=NOTICES[is_han(request.question)],
        )

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        """Yield sentence by sentence; the last piece carries the reason and the notice."""
        # Vectors of sentences take tenths of a second, which other streams must not wait for.
        pieces = await asyncio.to_thread(self._answer, request)
        for this, _ in pairwise(pieces):
            yield ChatReply(f"{this}\n", model=self.id)
        yield ChatReply(
            pieces[-1],
            model=self.id,
            finish_reason="stop",
            notice=NOTICES[is_han(request.question)],
        )

    def _answer(self, request: ChatRequest) -> list[str]:
        asked = parse_document_question(request.question)
        if request.headings and asked and asked.is_whole and (outline := _outline(request)):
            return outline
        candidates = _candidates(request.passages)
        chosen = self._chosen(request.question, candidates)
        if not chosen:
            return [NOTHING[is_han(request.question)]]
        return [quote_marker(candidate.doc_id, candidate.text) for candidate in chosen]

    def _chosen(self, question: str, candidates: list[_Candidate]) -> list[_Candidate]:
        shared = _shared(question, candidates)
        cosines = self._cosines(question, candidates, shared)
        is_relevant = max(shared, default=0.0) >= MIN_SHARED
        if not is_relevant and max(cosines.values(), default=0.0) < MIN_COSINE:
            is_foreign = bool(candidates) and candidates[0].is_han != is_han(question)
            first = filter(_stands_whole, candidates) if is_foreign and not self._score else ()
            return list(islice(first, 1))
        low, high = min(cosines.values(), default=0.0), max(cosines.values(), default=0.0)
        total = []
        for i, (candidate, share) in enumerate(zip(candidates, shared, strict=True)):
            likeness = share
            if high > low:
                likeness = (cosines.get(i, low) - low) / (high - low)
            score = (1 - MEANING_WEIGHT) * share + MEANING_WEIGHT * likeness
            total.append(score + RANK_WEIGHT / (1 + candidate.rank))
        order = sorted(range(len(candidates)), key=lambda i: (-total[i], i))
        near = (candidates[i] for i in order if total[i] >= KEEP * total[order[0]])
        return list(islice(filter(_stands_whole, near), MAX_SENTENCES))

    def _cosines(
        self, question: str, candidates: list[_Candidate], shared: list[float]
    ) -> dict[int, float]:
        """Return the cosines of the sentences that share most words, then of the first ones."""
        if self._score is None or not candidates:
            return {}
        order = sorted(range(len(candidates)), key=lambda i: (-shared[i], candidates[i].rank, i))
        compared = order[:MAX_COMPARED]
        values = self._score(question, [candidates[i].text for i in compared])
        return dict(zip(compared, values, strict=True))


MAX_OUTLINE, MAX_TITLE = 40, 80
_ENDED = re.compile(r"[。！？.!?；;：:,，]$")


def _outline(request: ChatRequest) -> list[str]:
    """Return the title of each section with its first sentence, cited: what a document says."""
    lines: dict[str, str] = {}
    pairs = zip(request.passages, request.headings, strict=True)
    for rank, ((name, text), heading) in enumerate(pairs):
        doc_id = name if _DOC_ID.fullmatch(name) else f"doc_{rank + 1:02d}"
        for title, body in _sections(text, heading):
            first = next((one for one in _candidates([(doc_id, body)]) if _is_in(one, text)), None)
            if first is not None and len(lines) < MAX_OUTLINE:
                marker = quote_marker(doc_id, first.text)
                lead = f"{unmarked(title)}：" if is_han(title) else f"{unmarked(title)}: "
                lines.setdefault(first.text, f"- {lead if title else ''}{marker}")
    return list(lines.values())


def _sections(text: str, heading: str) -> list[tuple[str, str]]:
    """Return the titles of a passage, each with the text below it; ``heading`` is of the first."""
    found: list[tuple[str, str]] = []
    title, body = heading, list[str]()
    for line in text.splitlines():
        bare = line.strip().lstrip("#").strip()
        is_title = line.lstrip().startswith("#") or bare == heading
        if bare and len(bare) <= MAX_TITLE and (is_title or _is_numbered(bare)):
            found.append((title, "\n".join(body)))
            title, body = bare, []
        else:
            body.append(line)
    found.append((title, "\n".join(body)))
    # What stands before the passage's own heading is the end of the section before.
    is_overlap = bool(heading) and any(title == heading for title, _ in found[1:])
    return found[1:] if is_overlap else found


_NUMBERED = re.compile(
    r"(?:\d{1,2}(?:\.\d{1,2})*[.、．]?\s+|第[\d一二三四五六七八九十百]{1,4}[章节條条篇]|[一二三四五六七八九十]{1,3}、"
    r"|(?:chapter|section|appendix)\s+[\dA-Z])",
    re.I,
)


def _is_numbered(line: str) -> bool:
    return bool(_NUMBERED.match(line)) and not _ENDED.search(line)


def _is_in(candidate: _Candidate, passage: str) -> bool:
    return candidate.text in passage and _stands_whole(replace(candidate, passage=passage))


def _candidates(passages: Sequence[tuple[str, str]]) -> list[_Candidate]:
    """Return the sentences that may be quoted, each text once, in the order of the passages."""
    seen: set[str] = set()
    found = []
    for rank, (name, text) in enumerate(passages):
        doc_id = name if _DOC_ID.fullmatch(name) else f"doc_{rank + 1:02d}"
        for start, end in sentence_spans(text):
            sentence = text[start:end]
            if sentence in seen or len(sentence) > MAX_CHARS or sentence.startswith("#"):
                continue
            if sum(map(str.isalnum, sentence)) < MIN_LETTERS:
                continue
            seen.add(sentence)
            terms = index_terms(sentence)
            found.append(_Candidate(doc_id, rank, text, sentence, terms, is_han(sentence)))
    return found


def _shared(question: str, candidates: Sequence[_Candidate]) -> list[float]:
    """Return how much of the question's words, by idf over the sentences, each sentence has."""
    frequency = Counter(term for candidate in candidates for term in candidate.terms)
    asked = {
        term: weight * math.log(1 + (len(candidates) + 1) / (frequency[term] + 0.5))
        for term, weight in query_terms(question).items()
    }
    whole = sum(asked.values())
    if not whole:
        return [0.0] * len(candidates)
    return [
        sum(value for term, value in asked.items() if term in candidate.terms) / whole
        for candidate in candidates
    ]


def _stands_whole(candidate: _Candidate) -> bool:
    """Return whether the checker of citations will find the sentence as it stands."""
    quote = normalize_quote(candidate.text).text
    return locate_quote(quote, normalize_quote(candidate.passage), is_exact=True) is not None
