"""A question answered from texts at hand by a chat model. In: a context. Out: grounded text.

The model's marks are taken out of the text: each checked quote says where it stands instead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from rag.core.deadline import Deadline
from rag.core.errors import ProviderTimeoutError
from rag.core.file_search import GroundedAnswer
from rag.core.ports import ChatModel, ChatRequest
from rag.core.types import ChatReply, Citation, Message
from rag.stages.context import Context
from rag.stages.prompt import answer_prompt
from rag.stages.unmark import UnmarkedText

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
            self.text, model=reply.model, finish_reason=reply.finish_reason,
            input_tokens=reply.input_tokens, output_tokens=reply.output_tokens, notice=reply.notice,
        )  # fmt: skip


def answer_passages(
    *, question: str, context: Context, chat: ChatModel, deadline: Deadline
) -> CitedAnswer:
    """Return the whole answer; raise what the model raises, and at the deadline."""
    deadline.check()
    reply = chat.generate(_request(question, context, deadline))
    deadline.check()
    cited = UnmarkedText(context.passages)
    text = cited.feed(reply.text) + cited.finish()
    return CitedAnswer(text, tuple(cited.citations), tuple(cited.spans), reply, True)


async def stream_passages(
    *, question: str, context: Context, chat: ChatModel, deadline: Deadline
) -> AsyncIterator[CitedAnswer]:
    """Yield the answer as it comes; leaving the iteration stops the model."""
    deadline.check()
    cited, last = UnmarkedText(context.passages), ChatReply("", model=chat.id)
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
            hint="Try again, or allow more time.", timeout_s=f"{deadline.timeout_s:g}",
        )  # fmt: skip
    return ChatRequest(
        messages=[Message(role, text) for role, text in answer_prompt(question, context)],
        question=question,
        passages=[(passage.doc_id, passage.hit.text) for passage in context.passages],
        timeout_s=min(MAX_CALL_S, left_s),
    )
