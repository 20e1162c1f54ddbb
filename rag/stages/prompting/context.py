"""Context of a prompt: hits laid out as text within a token budget, with the passages shown.

What was cut or left out says so; see ``trim`` for where texts are cut, ``context_layout`` for how
sources are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rag.core.hits import Hit
from rag.stages.prompting.context_layout import Layout, layout_for
from rag.stages.prompting.trim import trim_text
from rag.stages.text.terms import is_han


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
