"""Answer node: tells people a text without a model, its citations checked as those of models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop
from pydantic import Field

from agents.core.nodes import NodeRun, register_node
from agents.core.spoken_text import SpokenText
from agents.flows.definition.node_configs import NodeOptions
from agents.flows.definition.state import filled_text, user_query
from rag.stages.citing.verify import AnswerWriter


class AnswerConfig(NodeOptions):
    """``text`` is what is said, with ``{name}`` for variables."""

    text: str = Field(min_length=1, max_length=100_000)

    def texts(self) -> Mapping[str, Any]:
        """Return what is filled."""
        return {"text": self.text}


@register_node
class AnswerNode:
    """Tells people a text."""

    name = "answer"
    label = gettext_noop("Answer")
    Config = AnswerConfig

    async def run(
        self, state: Mapping[str, Any], config: AnswerConfig, run: NodeRun
    ) -> dict[str, Any]:
        """Return the text as a turn; what it cites is judged where the run has searched."""
        text = filled_text(config.text, state).strip()
        if not text:
            return {}
        writer = None
        if run.passages.has_searched:
            question = user_query(state)
            writer = AnswerWriter(run.passages.all, question=question, marks="documents")
        spoken = SpokenText(writer=writer)
        for kind, piece in (*spoken.feed(text), *spoken.finish()):
            await run.emit(kind, {"text": piece})
        if writer:
            run.keep_verdicts(writer.result())
        return {"flow_msgs": [{"role": "assistant", "content": text}]}
