"""Lays hits out as text for a model. In: hits and a token budget. Out: text and its passages.

Nothing is cut inside a character or a marker; what was cut says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rag.core.errors import UnknownNameError
from rag.core.types import Hit
from rag.stages.sentences import sentence_ends
from rag.stages.terms import is_han

TYPES = ("standard", "detailed", "summary")
HIT_TOKENS = 500
SUMMARY_TOKENS = 60
SUMMARY_HITS = 3
_WORDS = {
    True: {"title": "【参考资料】", "detailed": "【详细参考资料】", "summary": "【参考资料摘要】", "cut": "…（内容已截断）",
           "page": "第 {n} 页", "source": "资料", "score": "相关度", "count": "（{n} 条）"},
    False: {"title": "[Sources]", "detailed": "[Sources in detail]", "summary": "[Sources in brief]",
            "cut": "… (cut)", "page": "page {n}", "source": "Source", "score": "Relevance", "count": " ({n})"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Passage:
    """One hit as the model sees it; ``doc_id`` is what it cites."""

    doc_id: str
    hit: Hit
    text: str


@dataclass(frozen=True, slots=True)
class Context:
    """The text of a prompt's sources and the passages in it, in order."""

    text: str
    passages: tuple[Passage, ...]
    is_cut: bool = False


def build_context(
    hits: Sequence[Hit],
    max_tokens: int,
    count: Callable[[str], int],
    *,
    context_type: str = "standard",
    language_of: str = "",
) -> Context:
    """Return ``hits`` as numbered sources within ``max_tokens``.

    ``count`` counts tokens; ``language_of`` is a text whose script chooses the wording. No hits
    give an empty context. Raises UnknownNameError for an unknown ``context_type``.
    """
    if context_type not in TYPES:
        raise UnknownNameError("context type", context_type, TYPES)
    if not hits:
        return Context("", ())
    words = _WORDS[is_han(language_of or hits[0].text)]
    title = words["title" if context_type == "standard" else context_type]
    parts, passages, is_cut = [title], [], False
    left = max_tokens - count(title)
    for lead, number, hit, limit in _plan(hits, context_type, words):
        head = lead + _head(number, hit, context_type, words)
        room = min(left - count(head) - 2, limit)
        text = _fit(hit.text, room, count, words["cut"])
        is_cut = is_cut or text != hit.text
        if not text:
            is_cut = True
            break
        parts.append(f"{head}\n{text}")
        left -= count(parts[-1]) + 2
        passages.append(Passage(f"doc_{number:02d}", hit, text))
    if len(passages) < len(hits) and context_type != "summary":
        parts.append(words["cut"])
    return Context("\n\n".join(parts), tuple(passages), is_cut)


def _plan(
    hits: Sequence[Hit], context_type: str, words: dict[str, str]
) -> Iterator[tuple[str, int, Hit, int]]:
    """Yield (group heading, number, hit, token limit) in the order in which hits are shown."""
    if context_type != "summary":
        for number, hit in enumerate(hits, start=1):
            yield "", number, hit, HIT_TOKENS if context_type == "standard" else 10**9
        return
    groups: dict[str, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(hit.content_type, []).append(hit)
    number = 0
    for content_type, members in groups.items():
        for at, hit in enumerate(members[:SUMMARY_HITS]):
            number += 1
            of_group = words["count"].format(n=len(members))
            lead = f"【{content_type}】{of_group}\n" if at == 0 else ""
            yield lead, number, hit, SUMMARY_TOKENS


def _head(number: int, hit: Hit, context_type: str, words: dict[str, str]) -> str:
    place = " › ".join(hit.heading_path)
    page = words["page"].format(n=hit.page_first) if hit.page_first else ""
    about = " · ".join(part for part in (hit.file_name, page, place) if part)
    if context_type == "summary":
        return f"- [{number}] {about}:"
    head = f"[{number}] (doc_{number:02d}) 【{hit.content_type}】{about}"
    if context_type == "detailed":
        facts = "".join(f"\n{key}: {value}" for key, value in sorted(hit.metadata.items()))
        head += f"\n{words['score']}: {hit.score:.2f}{facts}"
    return head


def _fit(text: str, room: int, count: Callable[[str], int], mark: str) -> str:
    """Return the text, or as many of its sentences as fit with the mark that it was cut."""
    if count(text) <= room:
        return text
    room -= count(mark)
    ends = list(sentence_ends(text))
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high + 1) // 2
        if count(text[: ends[middle - 1]].rstrip()) <= room:
            low = middle
        else:
            high = middle - 1
    if low:
        return f"{text[: ends[low - 1]].rstrip()}{mark}"
    if room < 20:
        return ""
    size = len(text)
    while size > 1 and count(text[:size]) > room:
        size = size * 3 // 4
    return f"{text[:size].rstrip()}{mark}"
