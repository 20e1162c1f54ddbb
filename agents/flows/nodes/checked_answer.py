"""Checked answers of nodes: a text for people, held against what the run has found.

The state keeps what the model wrote, for nodes behind it to cite from; people are shown it with
the numbers of its passages and the verdict of each sentence.
"""

from __future__ import annotations

from dataclasses import replace

from agents.core.canned_texts import canned_text
from agents.core.cited_answers import repair_request
from agents.core.nodes import NodeRun
from agents.core.parse_output import parse_output
from agents.core.spoken_text import SpokenText
from agents.flows.definition.node_configs import AgentNodeConfig
from agents.flows.nodes.model_calls import ModelAnswer
from rag.core.errors import ProviderError
from rag.services.wiring.registry import can_write
from rag.stages.citing.verify import AnswerWriter


def answer_writer(config: AgentNodeConfig, run: NodeRun, question: str) -> AnswerWriter | None:
    """Return what checks an answer of the node; None while the run has looked nothing up."""
    if not run.passages.has_searched:
        return None
    drops = config.citation_failure == "drop"
    return AnswerWriter(run.passages.all, question=question, marks="documents", drops_failed=drops)


async def judge_text(
    text: str, asked: ModelAnswer, config: AgentNodeConfig, run: NodeRun, *, is_json: bool = False
) -> str:
    """Return a text as the state keeps it, by the node's rule for what its sources do not say.

    Its verdicts are kept with the visit. ``is_json``: it stood in a JSON answer.
    """
    writer = asked.writer
    if writer is None or (is_json and writer.raw != text):
        # What was told while it came is not what the answer came to.
        writer = answer_writer(config, run, asked.request.question)
    if writer is None or not text:
        return text
    if not writer.raw:
        writer.feed(text)
        writer.finish()
    if writer.n_dropped:
        outcome = ""
        if writer.is_empty:
            writer.say(canned_text("dropped", asked.request.question))
            outcome = "not_found"
        run.keep_verdicts(writer.result(outcome))
        # What was left out must not be read by other nodes.
        return writer.text.strip()
    if config.citation_failure == "repair" and (writer.failed or writer.unheld):
        return await _repaired(text, asked, writer, config, run, is_json)
    run.keep_verdicts(writer.result())
    return text


async def _repaired(
    text: str,
    asked: ModelAnswer,
    writer: AnswerWriter,
    config: AgentNodeConfig,
    run: NodeRun,
    is_json: bool,
) -> str:
    """Return the text written once more, if more of it holds; else the one before."""
    name = config.model.id if config.model else ""
    after = None
    if can_write(model_id=run.model_id(name)):
        request = repair_request(asked.request, writer, asked.request.question, asked.text)
        if is_json:
            request = replace(request, options=asked.request.options)
        try:
            again = (await run.ask_model(name, request, SpokenText("none"))).text
        except ProviderError:
            again = ""
        if is_json:
            again = parse_output(again).response_content
        after = writer.repaired(again)
        text = again.strip() if after else text
    run.keep_verdicts(after or writer.result())
    return text
