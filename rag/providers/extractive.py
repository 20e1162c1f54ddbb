"""Extractive chat model: quotes whole sentences with citations; no language model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from rag.core.ports import ChatRequest
from rag.core.types import ChatReply
from rag.providers.bpe import BpeTokenizer
from rag.stages.citing.citation_markers import quote_marker, unmarked
from rag.stages.citing.locate import find_abridged, locate_quote, quoted_parts
from rag.stages.query.answer_sentences import SentenceScorer, SourceSentence
from rag.stages.query.file_question import parse_document_question
from rag.stages.query.table_lookup import TableAnswer, look_up_cells
from rag.stages.text.normalize import normalize_quote, to_simplified
from rag.stages.text.sentences import sentence_spans
from rag.stages.text.tables import TableRow, TextTable, read_tables
from rag.stages.text.terms import is_han

MAX_SENTENCES = 3
# How many sentences are compared by meaning, of the question's language and of another: each costs
# some milliseconds.
MAX_COMPARED, MAX_FOREIGN = 12, 24
# A sentence beside the best one may have so much less.
KEEP = 1.0
# A sentence with less of the question's words and with a lower cosine is no answer. Measured on
# XQuAD with the default embedder: answers reach 0.23 or 0.27 in 98 of 100 cases, sentences of other
# articles in 15 to 20. Where a model's cosines are all higher, nothing is refused by them.
MIN_SHARED, MIN_COSINE = 0.2, 0.27
COSINE, RANK = 9.0, 0.5
MIN_LETTERS, MAX_CHARS = 4, 600
NOTICES = {
    True: "未配置对话模型，因此以下逐字摘引资料原句。要得到撰写的回答，请设置 RAG_CHAT_MODEL。",
    False: "No chat model is configured, so sentences are quoted as they stand. "
    "Set RAG_CHAT_MODEL to have answers written.",
}
NOTHING = {True: "没有找到相关内容。", False: "Nothing relevant was found."}
_DOC_ID = re.compile(r"doc_\d+")

Score = Callable[[str, list[str]], Sequence[float]]


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
        pieces, reason = self._fitting(request)
        return ChatReply(
            "\n".join(pieces),
            model=self.id,
            finish_reason=reason,
            notice=NOTICES[is_han(request.question)],
        )

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatReply]:
        """Yield sentence by sentence; the last piece carries the reason and the notice."""
        # Vectors of sentences take tenths of a second, which other streams must not wait for.
        pieces, reason = await asyncio.to_thread(self._fitting, request)
        for this, _ in pairwise(pieces):
            yield ChatReply(f"{this}\n", model=self.id)
        yield ChatReply(
            pieces[-1],
            model=self.id,
            finish_reason=reason,
            notice=NOTICES[is_han(request.question)],
        )

    def _fitting(self, request: ChatRequest) -> tuple[list[str], str]:
        """Return the sentences that ``max_tokens`` hold, at least the beginning of the first one,
        and why they end."""
        pieces, count = self._answer(request), BpeTokenizer().count
        left = request.max_tokens
        for n, piece in enumerate(pieces):
            shown = _QUOTE.sub(r"\2", piece)
            if (spent := count(shown)) > left:
                return pieces[:n] or [_shortened(piece, left)], "length"
            left -= spent
        return pieces, "stop"

    def _answer(self, request: ChatRequest) -> list[str]:
        asked = parse_document_question(request.question)
        is_whole = request.headings and asked and (asked.is_whole or asked.heading)
        if is_whole and asked and (said := _document_answer(request, asked.heading)):
            return said
        is_chinese, rows = is_han(request.question), _rows(request)
        prose = _candidates(request.passages, _doc_ids(request), list(_passage_tables(request)))
        if cells := _quote_cells(request, _doc_ids(request)):
            shares = SentenceScorer(request.question, prose).shares
            if cells[0].answer.share >= max(shares, default=0.0):
                return [one.marked(is_chinese=is_chinese) for one in cells[:MAX_SENTENCES]]
        chosen = self._chosen(request.question, [*prose, *rows])
        if not chosen:
            return [NOTHING[is_chinese]]
        return [
            rows[one].marked(is_chinese=is_chinese)
            if one in rows
            else quote_marker(one.doc_id, one.text)
            for one in chosen
        ]

    def _chosen(self, question: str, sentences: list[SourceSentence]) -> list[SourceSentence]:
        scorer = SentenceScorer(question, sentences)
        scores = scorer.scores()
        cosines = self._cosines(question, sentences, scores)
        is_relevant = max(scorer.shares, default=0.0) >= MIN_SHARED
        if not is_relevant and max(cosines.values(), default=0.0) < MIN_COSINE:
            is_foreign = bool(sentences) and is_han(sentences[0].text) != is_han(question)
            first = filter(_stands_whole, sentences) if is_foreign and not self._score else ()
            return list(islice(first, 1))
        low = min(cosines.values(), default=0.0)
        total = [
            score + COSINE * cosines.get(n, low) + RANK / (1 + one.rank)
            for n, (one, score) in enumerate(zip(sentences, scores, strict=True))
        ]
        order = sorted(range(len(sentences)), key=lambda n: (-total[n], n))
        near = (sentences[n] for n in order if total[n] >= total[order[0]] - KEEP)
        return list(islice(filter(_stands_whole, near), MAX_SENTENCES))

    def _cosines(
        self, question: str, sentences: list[SourceSentence], scores: Sequence[float]
    ) -> dict[int, float]:
        """Return the cosines of the best sentences, and of the first ones of another language."""
        if self._score is None or not sentences:
            return {}
        order = sorted(range(len(sentences)), key=lambda n: (-scores[n], sentences[n].rank, n))
        # Those of another language share no word with the question: words cannot choose among them.
        is_own = is_han(question)
        own = [n for n in order if is_han(sentences[n].text) == is_own]
        foreign = [n for n in order if is_han(sentences[n].text) != is_own]
        compared = own[:MAX_COMPARED] + foreign[:MAX_FOREIGN]
        values = self._score(question, [sentences[n].text for n in compared])
        return dict(zip(compared, values, strict=True))


_QUOTE = re.compile(r'<cite doc_id="([^"]*)" quote="[^"]*">(.*?)</cite>', re.S)


def _shortened(piece: str, max_tokens: int) -> str:
    """Return a sentence's beginning, still quoted letter by letter."""
    found = _QUOTE.search(piece)
    if found is None:
        return piece[: BpeTokenizer().offsets(piece)[max_tokens - 1][1]]
    shown = found[2]
    return quote_marker(found[1], shown[: BpeTokenizer().offsets(shown)[:max_tokens][-1][1]])


MAX_OUTLINE, MAX_TITLE, MAX_SECTION = 40, 80, 6
_ENDED = re.compile(r"[。！？.!?；;：:,，]$")


def _document_answer(request: ChatRequest, heading: str) -> list[str]:
    """Return what a document says, cited: of the section with this heading all, in its order.

    Without a heading, and where no passage has it, each section's title with its first sentence.
    """
    sections = [
        section
        for rank, (_, text) in enumerate(request.passages)
        for section in _sections(rank, text, request.headings[rank])
    ]
    quotes = _quotes(request)
    asked = [one for one in sections if heading and _folded(heading) in _folded(one.title)]
    said = {text: marked for one in asked for text, marked in _said_in(one, quotes)}
    if said:
        return list(islice(said.values(), MAX_SECTION))
    lines: dict[str, str] = {}
    for section in sections:
        for text, marked in islice(_said_in(section, quotes), 1):
            # Its number would be a figure that the sentence does not say.
            title = _NUMBER.sub("", unmarked(section.title))
            lead = f"{title}{'：' if is_han(title) else ': '}" if title else ""
            lines.setdefault(text, f"- {lead}{marked}")
    return list(islice(lines.values(), MAX_OUTLINE))


@dataclass(frozen=True, slots=True)
class _Section:
    """The part of the ``rank``-th passage that stands below ``title``."""

    rank: int
    title: str
    start: int
    end: int


def _sections(rank: int, text: str, heading: str) -> list[_Section]:
    """Return the sections of a passage; ``heading`` is of the first."""
    found: list[_Section] = []
    title, start, at = heading, 0, 0
    for line in text.splitlines(keepends=True):
        bare = line.strip().lstrip("#").strip()
        is_title = line.lstrip().startswith("#") or bare == heading
        if bare and len(bare) <= MAX_TITLE and (is_title or _is_numbered(bare)):
            found.append(_Section(rank, title, start, at))
            title, start = bare, at + len(line)
        at += len(line)
    found.append(_Section(rank, title, start, at))
    # What stands before the passage's own heading is the end of the section before.
    is_overlap = bool(heading) and any(one.title == heading for one in found[1:])
    return found[1:] if is_overlap else found


def _quotes(request: ChatRequest) -> list[tuple[SourceSentence, int, str]]:
    """Return all that may be quoted in the order of the documents: where it begins, its marker."""
    is_chinese, rows = is_han(request.question), _rows(request)
    prose = _candidates(request.passages, _doc_ids(request), list(_passage_tables(request)))
    marked = {one: quote_marker(one.doc_id, one.text) for one in prose}
    marked |= {line: row.marked(is_chinese=is_chinese) for line, row in rows.items()}
    found = [(one, one.passage.index(one.text), text) for one, text in marked.items()]
    return sorted(found, key=lambda quote: (quote[0].rank, quote[1]))


def _said_in(
    section: _Section, quotes: Sequence[tuple[SourceSentence, int, str]]
) -> Iterator[tuple[str, str]]:
    """Yield each sentence and row of a section, and its marker."""
    for one, at, marked in quotes:
        is_there = one.rank == section.rank and section.start <= at < section.end
        if is_there and _stands_whole(one):
            yield one.text, marked


def _folded(text: str) -> str:
    return "".join(filter(str.isalnum, to_simplified(text).casefold()))


_NUMBERED = re.compile(
    r"(?:\d{1,2}(?:\.\d{1,2})*[.、．]?\s+|第[\d一二三四五六七八九十百]{1,4}[章节條条篇]|[一二三四五六七八九十]{1,3}、"
    r"|(?:chapter|section|appendix)\s+[\dA-Z])",
    re.I,
)


_NUMBER = re.compile(r"\d{1,2}(?:\.\d{1,2})*[.、．]?\s+(?=\D)")


def _is_numbered(line: str) -> bool:
    return bool(_NUMBERED.match(line)) and not _ENDED.search(line)


def _doc_ids(request: ChatRequest) -> list[str]:
    return [
        name if _DOC_ID.fullmatch(name) else f"doc_{number:02d}"
        for number, (name, _) in enumerate(request.passages, start=1)
    ]


def _rows(request: ChatRequest) -> dict[SourceSentence, _TableQuote]:
    """Return the rows of all tables as sentences that may be quoted."""
    found: dict[SourceSentence, _TableQuote] = {}
    doc_ids = _doc_ids(request)
    for rank, table in _passage_tables(request):
        text = request.passages[rank][1]
        for row in table.rows:
            line = SourceSentence(doc_ids[rank], rank, text, text[row.start : row.end], -row.end)
            found[line] = _quote_row(doc_ids[rank], text, table, row)
    return found


def _candidates(
    passages: Sequence[tuple[str, str]],
    doc_ids: Sequence[str],
    tables: Sequence[tuple[int, TextTable]] = (),
) -> list[SourceSentence]:
    """Return the sentences that may be quoted, each text once, in the order of the passages."""
    seen: set[str] = set()
    found = []
    for rank, (_, text) in enumerate(passages):
        doc_id = doc_ids[rank]
        rows = [row for at, table in tables if at == rank for row in (*table.header, *table.rows)]
        lines = {range(row.start, row.end) for row in rows}
        for place, (start, end) in enumerate(sentence_spans(text)):
            sentence = text[start:end]
            if sentence in seen or len(sentence) > MAX_CHARS or sentence.startswith("#"):
                continue
            if sum(map(str.isalnum, sentence)) < MIN_LETTERS or any(start in one for one in lines):
                continue
            seen.add(sentence)
            found.append(SourceSentence(doc_id, rank, text, sentence, place))
    return found


def _stands_whole(candidate: SourceSentence) -> bool:
    """Return whether the checker of citations will find the sentence as it stands."""
    quote = normalize_quote(candidate.text).text
    return locate_quote(quote, normalize_quote(candidate.passage), is_exact=True) is not None


# Of the question's words the names of row and column must explain so many.
MIN_NAMED = 0.4


@dataclass(frozen=True, slots=True)
class _TableQuote:
    """Cells of a passage's table; ``text`` is the passage."""

    doc_id: str
    text: str
    answer: TableAnswer

    def marked(self, *, is_chinese: bool) -> str:
        """Return what the cells say, with the marker that quotes their header and row."""
        return quote_marker(
            self.doc_id, self._quote(), claim=self.answer.in_words(is_chinese=is_chinese)
        )

    def _quote(self) -> str:
        """Return header and row as they stand, the rows between them left out."""
        header, row = self.answer.table.header, self.answer.row
        line = self.text[row.start : row.end]
        if not header:
            return line
        head = self.text[header[0].start : header[-1].end]
        source = normalize_quote(self.text)
        if not self.text[header[-1].end : row.start].strip():
            whole = self.text[header[0].start : row.end]
            return (
                whole if locate_quote(normalize_quote(whole).text, source, is_exact=True) else line
            )
        abridged = f"{head} … {line}"
        _, is_whole = find_abridged(quoted_parts(normalize_quote(abridged).text), source)
        return abridged if is_whole else line


def _passage_tables(request: ChatRequest) -> Iterator[tuple[int, TextTable]]:
    """Yield the tables of a request's passages, each with its passage's place."""
    for rank, (_, text) in enumerate(request.passages):
        carried = request.table_headers[rank] if rank < len(request.table_headers) else ""
        for table in read_tables(text, carried):
            yield rank, table


def _quote_cells(request: ChatRequest, doc_ids: list[str]) -> list[_TableQuote]:
    """Return the cells that a question asks for by their names, those that explain it best."""
    found = [
        _TableQuote(doc_ids[rank], request.passages[rank][1], answer)
        for rank, table in _passage_tables(request)
        for answer in look_up_cells(request.question, table)
        if answer.share >= MIN_NAMED
    ]
    best = max((one.answer.share for one in found), default=0.0)
    kept: dict[tuple[str, ...], _TableQuote] = {}
    for one in found:
        if one.answer.share >= best:
            # Where chunks overlap a row stands in both.
            kept.setdefault(one.answer.row.cells, one)
    return list(kept.values())


def _quote_row(doc_id: str, text: str, table: TextTable, row: TableRow) -> _TableQuote:
    """Return all that a row says, by the columns."""
    key = next((at for at, cell in enumerate(row.cells) if cell), 0)
    places = tuple(at for at, cell in enumerate(row.cells) if cell and at != key)
    whole = TableAnswer(table, row, key, places or (key,), 0.0)
    return _TableQuote(doc_id, text, whole if places else replace(whole, key=0))
