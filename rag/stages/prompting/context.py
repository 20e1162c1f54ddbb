"""Context of a prompt: hits laid out as text within a token budget, with the passages shown.

What was cut or left out says so. The layouts ``standard``, ``detailed`` and ``summary`` are for
reading; ``xml`` keeps data and instructions apart: whatever a source contains, it cannot leave its
element.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from rag.core.errors import UnknownNameError
from rag.core.hits import Hit
from rag.core.types import CONTEXT_TYPES
from rag.stages.text.normalize import storable_text
from rag.stages.text.sentences import character_boundary, clause_ends, sentence_ends
from rag.stages.text.terms import is_han

# A shorter rest of a source says nothing.
MIN_TOKENS = 12
# What a model or reader must see whole, should a source contain it.
_MARKER = re.compile(
    r"</?cite\b[^<>]{0,4000}>|[\[［【]\s*\d{1,3}(?:\s*[,，、]\s*\d{1,3})*\s*[\]］】]"
)
_JOINERS = "\u200d\ufe0f"


def trim_text(text: str, room: int, count: Callable[[str], int], mark: str) -> str:
    """Return the text if it fits, else its beginning up to a sentence, a clause or a word.

    ``count`` gives a text's tokens; a cut leaves room for ``mark``. No room gives an empty text.
    """
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
    end = _outside(spans, character_boundary(text, longest, 0) if longest else 0)
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


@dataclass(frozen=True, slots=True)
class Passage:
    """One hit as the model sees it; ``doc_id`` is what it cites, ``text`` what is shown of it."""

    doc_id: str
    hit: Hit
    text: str

    @property
    def section(self) -> str:
        """Return the title of the section that it begins in, empty where it has none."""
        return next(iter(self.hit.heading_path[-1:]), "")


@dataclass(frozen=True, slots=True)
class Context:
    """The text of a prompt's sources and the passages in it, in order.

    ``is_cut`` says that a passage is shown in part or that hits were left out.
    """

    text: str
    passages: tuple[Passage, ...]
    is_cut: bool = False

    @property
    def shown(self) -> list[tuple[str, str]]:
        """Return each passage's id and whole text, for models that answer by quoting."""
        return [(passage.doc_id, passage.hit.text) for passage in self.passages]

    @property
    def headings(self) -> list[str]:
        """Return the title of the section that each passage begins in, empty where it has none."""
        return [passage.section for passage in self.passages]

    @property
    def table_headers(self) -> list[str]:
        """Return the header of the table that each passage goes on with, empty where none."""
        return [passage.hit.table_header for passage in self.passages]


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
    layout = layout_for(context_type, is_han(language_of or (hits[0].text if hits else "")))
    if not hits or max_tokens <= 0:
        return Context("", (), bool(hits))
    room = max_tokens
    if whole := _Packing(layout, count, room).whole(hits):
        return whole
    context = _Packing(layout, count, room).of(hits)
    while (excess := count(context.text) - max_tokens) > 0:
        # Whatever a tokenizer does where parts are joined, the budget holds.
        room -= excess
        context = _Packing(layout, count, room).of(hits)
    return context


class _Packing:
    """Sources in a layout, one after the other while there is room."""

    def __init__(self, layout: _Text | _Xml, count: Callable[[str], int], max_tokens: int) -> None:
        self.layout, self.count, self.max = layout, count, max_tokens

    def whole(self, hits: Sequence[Hit]) -> Context | None:
        """Return all hits uncut where they have room, as mostly: packing counts for each anew."""
        order, leads = self._ordered(hits)
        passages = tuple(
            Passage(f"doc_{number:02d}", hit, hit.text.strip())
            for number, hit in enumerate(order, start=1)
        )
        if len(passages) < len(hits) or not all(
            0 < self.count(passage.text) <= self._most(passage.hit) for passage in passages
        ):
            return None
        text = self._joined(
            [
                self.layout.title,
                *(
                    leads.get(id(hit), "")
                    + self.layout.source(number, hit, passages[number - 1].text)
                    for number, hit in enumerate(order, start=1)
                ),
            ]
        )
        return Context(text, passages) if self.count(text) <= self.max else None

    def of(self, hits: Sequence[Hit]) -> Context:
        layout = self.layout
        order, leads = self._ordered(hits)
        spare = self.count(layout.joint + layout.left_out(len(hits))) + 1
        parts, passages, is_cut = [layout.title], [], False
        for number, hit in enumerate(order, start=1):
            lead = leads.get(id(hit), "")
            shown = self._fitting(parts, lead, number, hit, 0 if number == len(hits) else spare)
            if shown is None:
                break
            parts.append(lead + layout.source(number, hit, shown))
            passages.append(Passage(f"doc_{number:02d}", hit, shown))
            is_cut = is_cut or len(shown) < len(hit.text.strip())
        n_left = len(hits) - len(passages)
        if not passages:
            return Context("", (), True)
        if n_left:
            parts.append(layout.left_out(n_left))
        return Context(self._joined(parts), tuple(passages), is_cut or n_left > 0)

    def _ordered(self, hits: Sequence[Hit]) -> tuple[list[Hit], dict[int, str]]:
        groups = self.layout.grouped(hits)
        order = [hit for _, members in groups for hit in members]
        return order, {id(members[0]): lead for lead, members in groups if lead}

    def _fitting(
        self, parts: Sequence[str], lead: str, number: int, hit: Hit, spare: int
    ) -> str | None:
        """Return what is shown of the hit so that all parts together hold the budget."""
        text = hit.text.strip()
        used = self.count(self._joined([*parts, lead + self.layout.source(number, hit, "")]))
        room = min(self.max - used - spare, self._most(hit))
        while True:
            shown = trim_text(text, room, self.count, self.layout.cut)
            if not shown:
                return None
            whole = self._joined([*parts, lead + self.layout.source(number, hit, shown)])
            excess = self.count(whole) + spare - self.max
            if excess <= 0:
                return shown
            # Tokens do not add up exactly over the parts, and escapes take more.
            room = min(room, self.count(shown)) - excess

    def _most(self, hit: Hit) -> int:
        """Return how many tokens of a hit are shown: so many for each chunk in it."""
        n_chunks = max(1, len(hit.parts)) if self.layout.is_whole else 1
        return n_chunks * self.layout.max_tokens

    def _joined(self, parts: Sequence[str]) -> str:
        return self.layout.joint.join([*parts, *([self.layout.end] if self.layout.end else [])])


# A chunk has at most 500 tokens by its own rule: it is shown whole.
HIT_TOKENS = {"standard": 500, "detailed": 1000, "summary": 60, "xml": 1000}
SUMMARY_HITS = 3
UNKNOWN_TYPE = "document"
_RULE = "━━━━━━━━━━━━━"


class _English:
    titles = ("[Sources]", "[Sources in detail]", "[Sources in brief]")
    cut = "… (cut here)"
    left_out = "({n} more sources are not shown)"
    page = "page {first}"
    pages = "pages {first}–{last}"
    score = "Relevance: {score:.2f}"
    group = "[{type}] ({n})"
    separator = ": "
    details = "Type: {type}\nName: {name}"
    source = "Source"
    columns = "Columns of the table: {header}"
    continues = "It goes on from: {header}"
    content = "Content:"


class _Chinese(_English):
    titles = ("【参考资料】", "【详细参考资料】", "【参考资料摘要】")
    cut = "…（内容已截断）"
    left_out = "（另有 {n} 条资料未列出）"
    page = "第 {first} 页"
    pages = "第 {first}–{last} 页"
    score = "相关度：{score:.2f}"
    group = "【{type}】（{n} 条）"
    separator = "："
    details = "类型：{type}\n名称：{name}"
    source = "资料"
    columns = "表格各列：{header}"
    continues = "接上文：{header}"
    content = "内容："


def layout_for(context_type: str, is_chinese: bool) -> _Text | _Xml:
    """Return the layout of a type; raise UnknownNameError for one that nobody knows."""
    if context_type not in CONTEXT_TYPES:
        raise UnknownNameError("context type", context_type, CONTEXT_TYPES)
    return _Xml() if context_type == "xml" else _Text(context_type, is_chinese)


class _Text:
    """A layout for reading: ``title``, ``joint`` and ``end`` go around the sources.

    ``cut`` is what a shortened source ends with, ``max_tokens`` the most that one may take.
    """

    joint, end = "\n\n", ""

    def __init__(self, context_type: str, is_chinese: bool) -> None:
        self.type, self.wording = context_type, _Chinese if is_chinese else _English
        self.title = self.wording.titles[CONTEXT_TYPES.index(context_type)]
        self.cut, self.max_tokens = self.wording.cut, HIT_TOKENS[context_type]
        self.is_whole = context_type != "summary"

    def grouped(self, hits: Sequence[Hit]) -> list[tuple[str, list[Hit]]]:
        """Return the hits that are shown in groups, each with the line that leads it."""
        if self.type != "summary":
            return [("", list(hits))]
        groups: dict[str, list[Hit]] = {}
        for hit in hits:
            groups.setdefault(hit.content_type or UNKNOWN_TYPE, []).append(hit)
        return [
            (self.wording.group.format(type=name, n=len(members)) + "\n", members[:SUMMARY_HITS])
            for name, members in groups.items()
        ]

    def source(self, number: int, hit: Hit, shown: str) -> str:
        head = self._head(number, hit)
        mark = self.cut if len(shown) < len(hit.text.strip()) else ""
        if self.type == "summary":
            return f"{head}{' '.join(shown.split())}{mark}"
        return f"{head}\n{shown}{mark}\n{_RULE if self.type == 'detailed' else '---'}"

    def left_out(self, n: int) -> str:
        return self.wording.left_out.format(n=n)

    def _head(self, number: int, hit: Hit) -> str:
        kind = hit.content_type or UNKNOWN_TYPE
        place = " · ".join(filter(None, (" › ".join(hit.heading_path), self._page(hit))))
        about = " · ".join(filter(None, (hit.file_name, place)))
        if self.type == "summary":
            return f"- [{number}] doc_{number:02d} {about}{self.wording.separator}"
        carried = self.wording.columns if _has_columns(hit) else self.wording.continues
        columns = carried.format(header=hit.table_header) if hit.table_header else ""
        if self.type == "standard":
            head = f"{number}. (doc_{number:02d}) 【{kind}】{about}"
            return f"{head}\n{columns}" if columns else head
        lines = [
            f"━━━ {self.wording.source} {number} (doc_{number:02d}) ━━━",
            self.wording.details.format(type=kind, name=hit.file_name),
            place,
            columns,
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


def _has_columns(hit: Hit) -> bool:
    """Return whether what is carried is a table's header and not the lead of a list or a title."""
    return "|" in hit.table_header


class _Xml:
    title, end, joint, cut, max_tokens = "<documents>", "</documents>", "\n", "", HIT_TOKENS["xml"]
    is_whole = True

    def grouped(self, hits: Sequence[Hit]) -> list[tuple[str, list[Hit]]]:
        return [("", list(hits))]

    def source(self, number: int, hit: Hit, shown: str) -> str:
        pages = [str(page) for page in (hit.page_first, hit.page_last) if page is not None]
        facts = {
            "id": f"doc_{number:02d}",
            "source": hit.file_name,
            "type": hit.content_type,
            "page": "-".join(dict.fromkeys(pages)),
            "section": " › ".join(hit.heading_path),
            "columns" if _has_columns(hit) else "continues": hit.table_header,
            "truncated": "true" if len(shown) < len(hit.text.strip()) else "",
        }
        given = "".join(
            f" {name}={quote_attribute(value)}" for name, value in facts.items() if value
        )
        # A page break parts words too.
        text = escape_data(shown.replace("\f", "\n"))
        return f"<document{given}>\n{text}\n</document>"

    def left_out(self, n: int) -> str:
        return f'<omitted count="{n}"/>'


def escape_data(text: str) -> str:
    """Return a text that stays inside its element, whatever it holds."""
    return escape(storable_text(text))


def quote_attribute(text: str) -> str:
    """Return a text as the quoted value of an attribute, whatever it holds."""
    return quoteattr(storable_text(text), {"\n": " ", "\r": " ", "\t": " "})
