"""Answer generation from given passages: chat model call, streaming, citation verification.

Grounded answers have no markers in their text: each citation's span says where its claim stands.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rag.core.deadline import Deadline
from rag.core.errors import ProviderTimeoutError
from rag.core.file_search import GroundedAnswer
from rag.core.ports import ChatModel, ChatRequest
from rag.core.types import ChatReply, Citation, Message
from rag.stages.citing.strip_markers import MarkerStripper
from rag.stages.citing.verify import CitationStream, verify_citations
from rag.stages.prompting.context import Context, Passage
from rag.stages.prompting.prompt import answer_prompt
from rag.stages.text.sentences import sentence_ends

MAX_CALL_S = 120.0


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer or its next piece; ``spans`` are where in the whole text each claim stands.

    Only the last piece has citations, spans and counts.
    """

    text: str
    citations: tuple[Citation, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    reply: ChatReply = field(default_factory=lambda: ChatReply(""))
    is_last: bool = False

    def as_grounded(self) -> GroundedAnswer:
        """Return the answer without its groundings, which need to know the documents."""
        reply = self.reply
        return GroundedAnswer(
            self.text,
            model=reply.model,
            finish_reason=reply.finish_reason,
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            notice=reply.notice,
        )


def answer_passages(
    *, question: str, context: Context, chat: ChatModel, deadline: Deadline
) -> CitedAnswer:
    """Return the whole answer; raise what the model raises, and at the deadline."""
    deadline.check()
    reply = chat.generate(_request(question, context, deadline))
    deadline.check()
    cited = MarkerStripper(context.passages)
    text = cited.feed(reply.text) + cited.finish()
    return CitedAnswer(text, tuple(cited.citations), tuple(cited.spans), reply, True)


async def stream_passages(
    *, question: str, context: Context, chat: ChatModel, deadline: Deadline
) -> AsyncIterator[CitedAnswer]:
    """Yield the answer as it comes; leaving the iteration stops the model."""
    deadline.check()
    cited, last = MarkerStripper(context.passages), ChatReply("", model=chat.id)
    pieces = chat.stream(_request(question, context, deadline))
    try:
        async for piece in pieces:
            deadline.check()
            last = piece
            if text := cited.feed(piece.text):
                yield CitedAnswer(text)
    finally:
        # Not left to the garbage collector, which would let the model go on for a while.
        await pieces.aclose()  # type: ignore[attr-defined]
    yield CitedAnswer(cited.finish(), tuple(cited.citations), tuple(cited.spans), last, True)


def _request(question: str, context: Context, deadline: Deadline) -> ChatRequest:
    left_s = deadline.remaining_s
    if left_s < 0.05:
        raise ProviderTimeoutError(
            "There was no answer within {timeout_s} s.",
            hint="Try again, or allow more time.",
            timeout_s=f"{deadline.timeout_s:g}",
        )
    return ChatRequest(
        messages=[Message(role, text) for role, text in answer_prompt(question, context)],
        question=question,
        passages=[(passage.doc_id, passage.hit.text) for passage in context.passages],
        timeout_s=min(MAX_CALL_S, left_s),
    )


# A quote of another document than was named is set right, and so it holds.
HOLDING_VERDICTS = frozenset({"verified", "wrong_document"})
Part = str | Citation


def failed_citations(citations: Sequence[Citation]) -> list[Citation]:
    """Return the citations whose quote no source holds as it stands."""
    return [citation for citation in citations if citation.verdict not in HOLDING_VERDICTS]


def checked_text(text: str, passages: Sequence[Passage]) -> tuple[str, tuple[Citation, ...]]:
    """Return a whole answer with ``[n]`` for its citations, and these, checked."""
    return verify_citations(text, passages)


class CheckedStream:
    """Passes an answer on as it comes, each citation checked and shown as ``[n]``.

    ``drops_failed`` holds the text back sentence by sentence and leaves out those with a quote
    that its source does not hold. ``shows_marks`` False gives the bare text without citations.
    """

    def __init__(
        self, passages: Sequence[Passage], *, drops_failed: bool = False, shows_marks: bool = True
    ) -> None:
        self._stream = CitationStream(passages)
        self._drops, self._shows = drops_failed, shows_marks
        # What is held back: text without marks, and where in it each citation stands.
        self._text, self._cited = "", list[tuple[int, Citation]]()
        self.n_dropped = 0

    def feed(self, piece: str) -> list[Part]:
        """Return what ``piece`` lets go, in order."""
        return self._passed(self._stream.feed(piece), is_last=False)

    def finish(self) -> list[Part]:
        """Return what is left when the answer ends."""
        return self._passed(self._stream.finish(), is_last=True)

    def _passed(self, parts: Sequence[Part], *, is_last: bool) -> list[Part]:
        # The stream writes each mark as a part of its own before its citation.
        bare = [
            part
            for part, following in zip(parts, [*parts[1:], ""], strict=False)
            if isinstance(part, Citation) or not isinstance(following, Citation)
        ]
        if not self._shows:
            return [part for part in bare if isinstance(part, str)]
        if not self._drops:
            return list(parts)
        for part in bare:
            if isinstance(part, str):
                self._text += part
            else:
                self._cited.append((len(self._text), part))
        ends = list(sentence_ends(self._text)) if self._text else []
        # Behind the last end more of the same sentence, or its mark, may come.
        out: list[Part] = []
        for start, end in pairwise([0, *ends[:-1]]):
            out += self._sentence(end - start)
        return out + self._sentence(len(self._text)) if is_last else out

    def _sentence(self, end: int) -> list[Part]:
        """Take the held text up to ``end``; return what is shown of it."""
        cited = [(at, one) for at, one in self._cited if at <= end]
        parts: list[Part] = []
        start = 0
        for at, citation in cited:
            parts += [self._text[start:at], f"[{citation.number}]", citation]
            start = at
        parts.append(self._text[start:end])
        self._text = self._text[end:]
        self._cited = [(at - end, one) for at, one in self._cited if at > end]
        if any(citation.verdict not in HOLDING_VERDICTS for _, citation in cited):
            self.n_dropped += 1
            return []
        return [part for part in parts if part != ""]
