"""Context of a prompt: hits laid out as text within a token budget, with the passages shown.

What was cut or left out says so; see ``context_layout`` for how sources are written.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rag.core.hits import Hit
from rag.stages.prompting.context_layout import Layout, layout_for
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


@dataclass(frozen=True, slots=True)
class Context:
    """The text of a prompt's sources and the passages in it, in order.

    ``is_cut`` says that a passage is shown in part or that hits were left out.
    """

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

    def __init__(self, layout: Layout, count: Callable[[str], int], max_tokens: int) -> None:
        self.layout, self.count, self.max = layout, count, max_tokens

    def whole(self, hits: Sequence[Hit]) -> Context | None:
        """Return all hits uncut where they have room, as mostly: packing counts for each anew."""
        order, leads = self._ordered(hits)
        passages = tuple(
            Passage(f"doc_{number:02d}", hit, hit.text.strip())
            for number, hit in enumerate(order, start=1)
        )
        if len(passages) < len(hits) or not all(
            0 < self.count(passage.text) <= self.layout.max_tokens for passage in passages
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
        room = min(self.max - used - spare, self.layout.max_tokens)
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

    def _joined(self, parts: Sequence[str]) -> str:
        return self.layout.joint.join([*parts, *([self.layout.end] if self.layout.end else [])])
