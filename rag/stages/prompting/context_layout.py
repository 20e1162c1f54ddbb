"""Context layouts: how sources are written for a model, by context type and language.

``standard``, ``detailed`` and ``summary`` are for reading; ``xml`` keeps data and instructions
apart: whatever a source contains, it cannot leave its element.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from xml.sax.saxutils import escape, quoteattr

from rag.core.errors import UnknownNameError
from rag.core.hits import Hit
from rag.core.types import CONTEXT_TYPES

# A chunk has at most 500 tokens by its own rule: it is shown whole.
HIT_TOKENS = {"standard": 500, "detailed": 1000, "summary": 60, "xml": 1000}
SUMMARY_HITS = 3
UNKNOWN_TYPE = "document"
_RULE = "━━━━━━━━━━━━━"
# What no XML document may contain, not even escaped.
_FORBIDDEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


class Layout(Protocol):
    """The parts of a context: a title, the sources one by one, a note on what is missing, an end.

    ``cut`` is what a shortened source ends with, ``max_tokens`` the most that one may take.
    """

    title: str
    end: str
    joint: str
    cut: str
    max_tokens: int

    def grouped(self, hits: Sequence[Hit]) -> list[tuple[str, list[Hit]]]:
        """Return the hits that are shown in groups, each with the line that leads it."""
        ...

    def source(self, number: int, hit: Hit, shown: str) -> str:
        """Return the hit as source ``number``, of which ``shown`` is shown."""
        ...

    def left_out(self, n: int) -> str:
        """Return the note that ``n`` sources are missing."""
        ...


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


_CHINESE = _Wording(
    ("【参考资料】", "【详细参考资料】", "【参考资料摘要】"),
    "…（内容已截断）",
    "（另有 {n} 条资料未列出）",
    "第 {first} 页",
    "第 {first}–{last} 页",
    "相关度：{score:.2f}",
    "【{type}】（{n} 条）",
    "：",
    "类型：{type}\n名称：{name}",
    "资料",
    "内容：",
)
_ENGLISH = _Wording(
    ("[Sources]", "[Sources in detail]", "[Sources in brief]"),
    "… (cut here)",
    "({n} more sources are not shown)",
    "page {first}",
    "pages {first}–{last}",
    "Relevance: {score:.2f}",
    "[{type}] ({n})",
    ": ",
    "Type: {type}\nName: {name}",
    "Source",
    "Content:",
)


def layout_for(context_type: str, is_chinese: bool) -> Layout:
    """Return the layout of a type; raise UnknownNameError for one that nobody knows."""
    if context_type not in CONTEXT_TYPES:
        raise UnknownNameError("context type", context_type, CONTEXT_TYPES)
    return _Xml() if context_type == "xml" else _Text(context_type, is_chinese)


class _Text:
    joint, end = "\n\n", ""

    def __init__(self, context_type: str, is_chinese: bool) -> None:
        self.type, self.wording = context_type, _CHINESE if is_chinese else _ENGLISH
        self.title = self.wording.titles[CONTEXT_TYPES.index(context_type)]
        self.cut, self.max_tokens = self.wording.cut, HIT_TOKENS[context_type]

    def grouped(self, hits: Sequence[Hit]) -> list[tuple[str, list[Hit]]]:
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
        if self.type == "standard":
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


class _Xml:
    title, end, joint, cut, max_tokens = "<documents>", "</documents>", "\n", "", HIT_TOKENS["xml"]

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
            "truncated": "true" if len(shown) < len(hit.text.strip()) else "",
        }
        given = "".join(f" {name}={_attribute(value)}" for name, value in facts.items() if value)
        # A page break parts words too.
        text = _FORBIDDEN.sub("", shown.replace("\f", "\n"))
        return f"<document{given}>\n{escape(text)}\n</document>"

    def left_out(self, n: int) -> str:
        return f'<omitted count="{n}"/>'


def _attribute(value: str) -> str:
    return quoteattr(_FORBIDDEN.sub("", value), {"\n": " ", "\r": " ", "\t": " "})
