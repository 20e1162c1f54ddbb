"""Lays hits out as text for a model. In: hits and a token budget. Out: text and its passages.

Nothing is cut inside a character or a marker; what was cut or left out says so.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rag.core.errors import UnknownNameError
from rag.core.hits import Hit
from rag.stages.sentences import clause_ends, safe_cut, sentence_ends
from rag.stages.terms import is_han

TYPES = ("standard", "detailed", "summary")
# A chunk has at most 500 tokens by its own rule: it is shown whole.
HIT_TOKENS = {"standard": 500, "detailed": 1000, "summary": 60}
SUMMARY_HITS = 3
UNKNOWN_TYPE = "document"
_RULE = "━━━━━━━━━━━━━"
# A shorter rest of a source says nothing.
MIN_TOKENS = 12
# What a model or reader must see whole, should a source contain it.
_MARKER = re.compile(
    r"</?cite\b[^<>]{0,4000}>|[\[［【]\s*\d{1,3}(?:\s*[,，、]\s*\d{1,3})*\s*[\]］】]"
)


@dataclass(frozen=True, slots=True)
class Passage:
    """One hit as the model sees it; ``doc_id`` is what it cites, ``text`` what is shown of it."""

    doc_id: str
    hit: Hit
    text: str


@dataclass(frozen=True, slots=True)
class Context:
    """The text of a prompt's sources and the passages in it, in order.

    ``is_cut`` says that a passage is shown in part or that hits were left out.
    """

    text: str
    passages: tuple[Passage, ...]
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class _Wording:
    titles: tuple[str, str, str]
    cut: str
    left_out: str
    page: str
    pages: str
    score: str
    group: str
    separator: str
    details: str
    source: str
    content: str


_JOINERS = "\u200d\ufe0f"
_CHINESE = _Wording(
    ("【参考资料】", "【详细参考资料】", "【参考资料摘要】"), "…（内容已截断）",
    "（另有 {n} 条资料未列出）", "第 {first} 页", "第 {first}–{last} 页",
    "相关度：{score:.2f}", "【{type}】（{n} 条）", "：", "类型：{type}\n名称：{name}",
    "资料", "内容：",
)  # fmt: skip
_ENGLISH = _Wording(
    ("[Sources]", "[Sources in detail]", "[Sources in brief]"), "… (cut here)",
    "({n} more sources are not shown)", "page {first}", "pages {first}–{last}",
    "Relevance: {score:.2f}", "[{type}] ({n})", ": ", "Type: {type}\nName: {name}",
    "Source", "Content:",
)  # fmt: skip


def build_context(
    hits: Sequence[Hit],
    max_tokens: int,
    count: Callable[[str], int],
    *,
    context_type: str = "standard",
    language_of: str = "",
) -> Context:
    """Return ``hits`` as numbered sources in at most ``max_tokens`` tokens, as ``count`` has them.

    ``language_of`` is a text, such as the query, whose script chooses the wording. No hits, or no
    room for any, give an empty text. Raises UnknownNameError for an unknown ``context_type``.
    """
    if context_type not in TYPES:
        raise UnknownNameError("context type", context_type, TYPES)
    if not hits:
        return Context("", ())
    wording = _CHINESE if is_han(language_of or hits[0].text) else _ENGLISH
    layout = _Layout(context_type, wording, count, max_tokens)
    context = layout.of(hits)
    while (excess := count(context.text) - max_tokens) > 0:
        # Whatever a tokenizer does where parts are joined, the budget holds.
        layout.max -= excess
        context = layout.of(hits)
    return context


class _Layout:
    """One way to write sources down, within a budget."""

    def __init__(
        self, context_type: str, wording: _Wording, count: Callable[[str], int], max_tokens: int
    ) -> None:
        self.type, self.wording, self.count, self.max = context_type, wording, count, max_tokens
        self.title = wording.titles[TYPES.index(context_type)]

    def of(self, hits: Sequence[Hit]) -> Context:
        groups = self._grouped(hits)
        order = [hit for _, members in groups for hit in members]
        leads = {id(members[0]): lead for lead, members in groups if lead}
        spare = self.count("\n\n" + self.wording.left_out.format(n=len(hits))) + 1
        parts, passages, is_cut = [self.title], [], False
        for number, hit in enumerate(order, start=1):
            head = leads.get(id(hit), "") + self._head(number, hit)
            used = self.count("\n\n".join([*parts, head]))
            is_last = number == len(hits)
            room = min(self.max - used - (0 if is_last else spare), HIT_TOKENS[self.type])
            shown = self._fitting(parts, head, hit, room, 0 if is_last else spare)
            if shown is None:
                break
            parts.append(self._source(head, hit, shown))
            passages.append(Passage(f"doc_{number:02d}", hit, shown))
            is_cut = is_cut or len(shown) < len(hit.text.strip())
        n_left = len(hits) - len(passages)
        if not passages:
            return Context("", (), True)
        if n_left:
            parts.append(self.wording.left_out.format(n=n_left))
        return Context("\n\n".join(parts), tuple(passages), is_cut or n_left > 0)

    def _fitting(self, parts: list[str], head: str, hit: Hit, room: int, spare: int) -> str | None:
        """Return what is shown of the hit so that all parts together hold the budget."""
        text = hit.text.strip()
        while True:
            shown = _cut(text, room, self.count, self.wording.cut)
            if not shown:
                return None
            whole = "\n\n".join([*parts, self._source(head, hit, shown)])
            excess = self.count(whole) + spare - self.max
            if excess <= 0:
                return shown
            # Tokens do not add up exactly over the parts.
            room = min(room, self.count(shown)) - excess

    def _source(self, head: str, hit: Hit, shown: str) -> str:
        mark = self.wording.cut if len(shown) < len(hit.text.strip()) else ""
        if self.type == "summary":
            return f"{head}{' '.join(shown.split())}{mark}"
        return f"{head}\n{shown}{mark}\n{_RULE if self.type == 'detailed' else '---'}"

    def _grouped(self, hits: Sequence[Hit]) -> list[tuple[str, list[Hit]]]:
        if self.type != "summary":
            return [("", list(hits))]
        groups: dict[str, list[Hit]] = {}
        for hit in hits:
            groups.setdefault(hit.content_type or UNKNOWN_TYPE, []).append(hit)
        return [
            (self.wording.group.format(type=name, n=len(members)) + "\n", members[:SUMMARY_HITS])
            for name, members in groups.items()
        ]

    def _head(self, number: int, hit: Hit) -> str:
        kind = hit.content_type or UNKNOWN_TYPE
        place = " · ".join(filter(None, (" › ".join(hit.heading_path), self._page(hit))))
        if self.type == "summary":
            about = " · ".join(filter(None, (hit.file_name, place)))
            return f"- [{number}] doc_{number:02d} {about}{self.wording.separator}"
        if self.type == "standard":
            about = " · ".join(filter(None, (hit.file_name, place)))
            return f"{number}. (doc_{number:02d}) 【{kind}】{about}"
        lines = [
            f"━━━ {self.wording.source} {number} (doc_{number:02d}) ━━━",
            self.wording.details.format(type=kind, name=hit.file_name),
            place,
            "" if hit.score is None else self.wording.score.format(score=hit.score),
            *(
                f"{key}{self.wording.separator}{value}"
                for key, value in sorted(hit.metadata.items())
            ),
            f"\n{self.wording.content}",
        ]
        return "\n".join(filter(None, lines))

    def _page(self, hit: Hit) -> str:
        if hit.page_first is None:
            return ""
        is_one = hit.page_last in (None, hit.page_first)
        template = self.wording.page if is_one else self.wording.pages
        return template.format(first=hit.page_first, last=hit.page_last)


def _cut(text: str, room: int, count: Callable[[str], int], mark: str) -> str:
    """Return the text if it fits, else its beginning up to a sentence, a clause or a word."""
    if room < 1:
        return ""
    if count(text) <= room:
        return text
    room -= count(mark)
    if room < MIN_TOKENS:
        return ""
    spans = [match.span() for match in _MARKER.finditer(text)]
    longest = _longest(text, range(1, len(text)), room, count)
    for ends in (sentence_ends(text), clause_ends(text, 0, len(text))):
        places = [end for end in ends if longest // 2 <= end <= longest]
        end = _between_characters(text, _outside(spans, places[-1])) if places else 0
        if text[:end].strip():
            return text[:end].rstrip()
    end = _outside(spans, safe_cut(text, longest, 0) if longest else 0)
    end = _between_characters(text, end)
    return text[:end].rstrip()


def _longest(text: str, places: range, room: int, count: Callable[[str], int]) -> int:
    """Return the longest beginning within ``room`` tokens, found by halving."""
    low, high = 0, len(places)
    while low < high:
        middle = (low + high + 1) // 2
        if count(text[: places[middle - 1]].rstrip()) <= room:
            low = middle
        else:
            high = middle - 1
    return places[low - 1] if low else 0


def _outside(spans: Sequence[tuple[int, int]], position: int) -> int:
    """Return ``position``, or the start of the marker that it would part."""
    return next((start for start, end in spans if start < position < end), position)


def _between_characters(text: str, position: int) -> int:
    """Return ``position``, or where the character begins that it would part."""
    while 0 < position < len(text) and (
        text[position] in _JOINERS
        or text[position - 1] == "\u200d"
        or unicodedata.category(text[position])[0] == "M"
    ):
        position -= 1
    return position
