"""Step Converse: what is asked of the answers before, such as a translation or a table.

It is answered from these answers and from the passages that they cite; every quote is looked up
again. Where nothing is cited, what the last question finds is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.chat.pipelines.generate_answer import AnswerStream, agent_messages, agent_request
from agents.core.canned_texts import canned_text
from agents.core.cited_answers import passage_key, serialize_sources
from agents.core.pipeline import EarlierAnswer, PipelineRun, PipelineState
from agents.core.prompts import language_of
from agents.core.state import Turn
from rag.core.hits import Hit
from rag.core.types import Message
from rag.stages.citing.citation_markers import quote_marker, unmarked
from rag.stages.prompting.context import Passage, build_context, escape_data
from rag.stages.query.condense import condense_question
from rag.stages.query.conversation_request import parse_conversation_request

# All that was said is so many last answers; a model is shown so much of them.
MAX_ANSWERS, MAX_QUOTES = 12, 24
_SHOWN_CHARACTERS, _MAX_TURN = 16_000, 4000
_TABLE = {"zh": "| 内容 | 问题 |\n| --- | --- |", "en": "| Content | Question |\n| --- | --- |"}
# What these ask for nobody does who only quotes.
_NEEDS_WRITER = ("translate", "simpler", "repeat")


async def converse_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``final_answer``, ``citations`` and ``outcome``; raise ProviderError."""
    query, history = state["query"], state.get("history") or []
    asked = parse_conversation_request(query)
    kind = asked.kind if asked else "repeat"
    answers = await run.earlier_answers(MAX_ANSWERS if kind == "summary" else 1)
    answers = answers or _from_turns(history, MAX_ANSWERS if kind == "summary" else 1)
    hits = {passage_key(quote.hit): quote.hit for answer in answers for quote in answer.quotes}
    found = list(hits.values()) or await _found(history, run)
    context = build_context(
        found,
        run.config.context_tokens,
        run.count_tokens,
        context_type="xml",
        language_of=query,
    )
    await run.emit("sources", {"sources": serialize_sources(context.passages)})
    answer_stream = AnswerStream(run, context.passages)
    if not run.can_write:
        await _quoted(kind, answers, context.passages, query, answer_stream)
        has_quotes = bool(answer_stream.writer.citations)
        return answer_stream.state("answered" if has_quotes else "unknown")
    request = agent_request(_messages(state, answers, context.text, run), query, (), run)
    await answer_stream.write(request)
    return await answer_stream.conclude(request, query)


def _messages(
    state: PipelineState, answers: Sequence[EarlierAnswer], documents: str, run: PipelineRun
) -> list[Message]:
    most = min(_MAX_TURN, _SHOWN_CHARACTERS // (2 * max(1, len(answers))))
    turns = "\n".join(
        f'<turn role="{role}">{escape_data(text[:most])}</turn>'
        for answer in answers
        for role, text in (("user", answer.question), ("assistant", answer.text))
        if text.strip()
    )
    # The turns stand here, however few of them the config shows beside other questions.
    alone: PipelineState = {**state, "history": []}
    told = f"{documents}\n<conversation>\n{turns}\n</conversation>".strip()
    return agent_messages("conversation", alone, told, run)


def _from_turns(history: Sequence[Turn], n: int) -> list[EarlierAnswer]:
    """Return the last answers of a history without rows: nothing is known of what they cite."""
    answers: list[EarlierAnswer] = []
    question = ""
    for turn in history[-4 * n :]:
        if turn["role"] == "user":
            question = turn["content"]
        elif turn["content"].strip():
            answers.append(EarlierAnswer(question, turn["content"]))
    return answers[-n:]


async def _found(history: Sequence[Turn], run: PipelineRun) -> Sequence[Hit]:
    """Return what the last question finds, as it stands alone."""
    asked = [
        turn["content"]
        for turn in history
        if turn["role"] == "user" and parse_conversation_request(turn["content"]) is None
    ]
    if not asked or not run.tools.searches_stores:
        return ()
    query = condense_question(asked[-1], asked[:-1]).text
    return (await run.search(query, run.config.default_top_k)).hits


async def _quoted(
    kind: str,
    answers: Sequence[EarlierAnswer],
    passages: Sequence[Passage],
    query: str,
    answer_stream: AnswerStream,
) -> None:
    """Show what the answers quote, in the form that is asked for; without a model."""
    language = language_of(query)
    ids = {passage_key(passage.hit): passage.doc_id for passage in passages}
    known = {
        (answer.question, ids[key], quote.text): None
        for answer in answers
        for quote in answer.quotes
        if (key := passage_key(quote.hit)) in ids and quote.text
    }
    quotes = list(known)[-MAX_QUOTES:]
    if not quotes:
        await answer_stream.say(canned_text("nothing cited", query))
        return
    if kind in _NEEDS_WRITER:
        await answer_stream.say(canned_text("needs model", query))
    if kind == "shorter":
        quotes = quotes[:1]
    if kind == "table":
        await answer_stream.say(f"{_TABLE[language]}\n")
    await answer_stream.feed("\n".join(_lines(kind, quotes)))
    await answer_stream.finish()


def _lines(kind: str, quotes: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return a line for each quote; of a summary one for each question, with its first quote."""
    lines: dict[str, str] = {}
    for number, (question, doc_id, text) in enumerate(quotes):
        asked, marker = unmarked(question), quote_marker(doc_id, text)
        if kind == "table":
            marker = quote_marker(doc_id, text, claim=text.replace("|", "/"))
            lines[str(number)] = f"| {marker} | {asked.replace('|', '/')} |"
        elif kind == "summary":
            lines.setdefault(asked, f"- {asked} {marker}")
        else:
            lines[str(number)] = f"- {marker}" if len(quotes) > 1 else marker
    return list(lines.values())
