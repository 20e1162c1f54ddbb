"""Step Generate: the answer of an agent, streamed with its citations, by the citation policy.

What is not sure is said to be unknown; what fails is an error and never an answer. Data of a
prompt (persona, history, sources) never leaves its element.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import asdict, replace
from typing import Any

from agents.core.canned_texts import canned_text, unknown_text
from agents.core.cited_answers import (
    doc_id_of,
    passage_key,
    repair_request,
    serialize_sources,
)
from agents.core.pipeline import PipelineRun, PipelineState
from agents.core.prompts import fill_prompt, language_of, prompt_file
from agents.core.state import Turn
from rag.core.analysis import Answerability
from rag.core.errors import ProviderError
from rag.core.hits import Hit
from rag.core.ports import ChatRequest
from rag.core.sources import enhance_with
from rag.core.types import NO_ENHANCER, Citation, Message, Statement
from rag.stages.citing.verify import AnswerWriter, Part, VerifiedAnswer, answer_confidence
from rag.stages.prompting.abstention import doubt_notice, missing_text
from rag.stages.prompting.context import (
    Context,
    Passage,
    build_context,
    escape_data,
)

# Of what is left of a step's time a second question to the model may take so much.
REPAIR_TIME_SHARE = 0.9


class AnswerStream:
    """An agent's answer, told as it comes: its text and its citations, checked by AnswerWriter."""

    def __init__(
        self,
        run: PipelineRun,
        passages: Sequence[Passage] = (),
        *,
        question: str = "",
        is_cited: bool = True,
        confidence: float | None = None,
    ) -> None:
        self.writer = AnswerWriter(
            passages,
            question=question,
            marks="numbered" if is_cited and run.config.enable_source_citation else "hidden",
            drops_failed=run.config.citation_failure == "drop",
        )
        self._started, self._run, self._confidence = time.monotonic(), run, confidence

    async def say(self, text: str) -> None:
        """Show words of our own."""
        await self._emit([self.writer.say(text)])

    async def adopt(
        self, text: str, citations: Sequence[Citation], statements: Sequence[Statement]
    ) -> None:
        """Show an answer that another agent gave, which was checked there."""
        self.writer.adopt(text, citations, statements)
        await self._emit([text, *citations])

    async def feed(self, text: str) -> None:
        """Take a piece of what the model writes."""
        await self._emit(self.writer.feed(text))

    async def finish(self, *, may_be_empty: bool = False) -> None:
        """Show what is left; raise ProviderError for an answer of nothing."""
        await self._emit(self.writer.finish())
        if not self.writer.raw.strip() and not may_be_empty:
            raise ProviderError(
                "The model {model} answered with nothing.", model=self._run.model_id
            )

    async def write(self, request: ChatRequest, *, may_be_empty: bool = False) -> None:
        """Let the model write a whole answer; raise ProviderError."""
        async with aclosing(self._run.stream(request)) as pieces:
            async for piece in pieces:
                await self.feed(piece.text)
                if piece.notice:
                    await self._run.emit("notice", {"step": "generate", "text": piece.notice})
        await self.finish(may_be_empty=may_be_empty)

    async def retract(self) -> None:
        """Take back what was shown: it was no answer."""
        if self.writer.retract():
            await self._run.emit("replace", {"text": "", "citations": []})

    async def give_up(
        self,
        query: str,
        hits: Sequence[Hit] | None = None,
        judged: Answerability | None = None,
    ) -> PipelineState:
        """Say that it is not known, what of it nobody mentions, and what was looked at.

        That is the passages if nothing else.
        """
        looked_at = [passage.hit for passage in self.writer.passages] if hits is None else hits
        told = [unknown_text(query, looked_at), missing_text(query, judged)]
        await self.say("\n\n".join(filter(None, told)))
        return self.state("not_found")

    def state(self, outcome: str = "") -> PipelineState:
        """Return the state of the answer as it was shown; its grounds say what came of it else."""
        return self._state_of(self.writer.result(outcome))

    def _state_of(self, answer: VerifiedAnswer) -> PipelineState:
        state: PipelineState = {
            "final_answer": answer.text,
            "outcome": answer.outcome,
            "citations": [asdict(citation) for citation in answer.citations],
            "grounding": answer.groundedness.as_dict(),
        }
        if self._confidence is not None:
            state["confidence"] = answer_confidence(self._confidence, answer)
        return state

    async def conclude(
        self,
        asked: ChatRequest,
        query: str,
        *,
        is_grounded: bool = True,
        left_s: float | None = None,
    ) -> PipelineState:
        """Return the state of an answer that was written, by the rule for quotes that do not hold.

        One that rests on nothing is taken back. A repair has ``left_s``; else what is left of the
        request's time, as what was written stands.
        """
        writer, run = self.writer, self._run
        if not is_grounded:
            await self.retract()
            return await self.give_up(query)
        if writer.n_dropped:
            await run.emit("notice", {"step": "generate", "dropped_sentences": writer.n_dropped})
            if writer.is_empty:
                await self.say(canned_text("dropped", query))
                return self.state("not_found")
        if not (
            (writer.failed or writer.unheld)
            and run.config.citation_failure == "repair"
            and run.can_write
        ):
            return self.state()
        if left_s is None:
            spent_s = time.monotonic() - self._started
            left_s = max(0.0, REPAIR_TIME_SHARE * (asked.timeout_s - spent_s))
        request = repair_request(asked, writer, query)
        return await self._repaired(replace(request, timeout_s=left_s))

    async def _repaired(self, request: ChatRequest) -> PipelineState:
        """Return the answer written once more, if more of its quotes hold; else the one before."""
        try:
            reply = await self._run.ask(request)
        except ProviderError as error:
            await self._run.emit("notice", {"step": "repair", "error": error.as_dict()})
            return self.state()
        after = self.writer.repaired(reply.text)
        if after is None:
            await self._run.emit("notice", {"step": "repair", "kept": "original"})
            return self.state()
        state = self._state_of(after)
        told = {"text": after.text, "citations": state["citations"]}
        await self._run.emit("replace", told)
        return state

    async def _emit(self, parts: Iterable[Part]) -> None:
        for part in parts:
            if isinstance(part, str):
                await self._run.emit("delta", {"text": part})
            else:
                await self._run.emit("citation", asdict(part))


async def emit_answer(text: str, outcome: str, run: PipelineRun) -> PipelineState:
    """Tell a text of our own as the answer."""
    answer_stream = AnswerStream(run)
    await answer_stream.say(text)
    return answer_stream.state(outcome)


_OF_ONESELF = re.compile(r"我|咱|上次|以前问|\b(?:i|my|mine|me|we|our|ours|us|last time)\b", re.I)


def is_answered_by_memory(state: PipelineState, run: PipelineRun) -> bool:
    """Return whether a question is about who asks, and there are memories and a model to tell."""
    has_memories = bool(state.get("memories")) and run.can_write
    return has_memories and bool(_OF_ONESELF.search(state["query"]))


async def generate_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``final_answer``, ``citations`` and ``outcome``; raise ProviderError."""
    query, way = state["query"], state.get("route") or "retrieve"
    if way == "small_talk":
        if not run.can_write:
            return await emit_answer(canned_text("greeting", query), way, run)
        system = agent_messages("small_talk", state, "", run)[0]
        question = Message("user", f"<question>{escape_data(query)}</question>")
        return await _answer_uncited([system, question], state, way, run)
    if way == "about_store":
        return await emit_answer(state.get("facts") or "", way, run)
    page, hits = state.get("page_hits") or [], state.get("reranked_results") or []
    if state.get("search_error") and not page:
        return await emit_answer(canned_text("unavailable", query), "unavailable", run)
    is_unsure = (state.get("confidence") or 0.0) < run.config.min_confidence_score
    # What the page sent is what is asked about: beside it, doubtful hits only mislead.
    hits = [*page, *([] if is_unsure else hits)] if page else hits
    room = run.config.context_tokens + (run.config.page_tokens if page else 0)
    context = build_context(hits, room, run.count_tokens, context_type="xml", language_of=query)
    await run.emit("sources", {"sources": _sources(context, hits)})
    asked = state.get("rewritten_query") or query
    answer_stream = AnswerStream(
        run, context.passages, question=asked, confidence=state.get("confidence")
    )
    judged = None if page else state.get("answerability")
    is_refused = judged is not None and judged.is_refused(run.config.unanswerable)
    if (is_unsure and not page) or is_refused or not context.passages:
        if is_answered_by_memory(state, run):
            messages = agent_messages("remembered", state, "", run)
            return await _answer_uncited(messages, state, "remembered", run)
        return await answer_stream.give_up(query, hits, judged)
    await tell_doubt(judged, query, run)
    messages = agent_messages("answer", state, context.text, run)
    is_lookup = bool(state.get("is_lookup"))
    request = agent_request(messages, asked, context.passages, run, is_lookup=is_lookup)
    await answer_stream.write(request)
    return await answer_stream.conclude(request, query)


async def tell_doubt(judged: Answerability | None, query: str, run: PipelineRun) -> None:
    """Tell that an answer may not stand in its sources, where the config wants to know."""
    if judged and run.config.unanswerable != "answer" and (text := doubt_notice(query, judged)):
        await run.emit("notice", {"step": "generate", "text": text})


async def _answer_uncited(
    messages: Sequence[Message], state: PipelineState, outcome: str, run: PipelineRun
) -> PipelineState:
    """Return an answer without citations, whose outcome says where it is from."""
    answer_stream = AnswerStream(run, is_cited=False)
    await answer_stream.write(agent_request(messages, state["query"], (), run))
    return answer_stream.state(outcome)


def agent_request(
    messages: Sequence[Message],
    question: str,
    passages: Sequence[Passage],
    run: PipelineRun,
    *,
    is_lookup: bool = False,
) -> ChatRequest:
    """Return what an agent's model is asked for an answer from passages.

    Those of a document that the question names (``is_lookup``) bring the titles of its sections.
    """
    return ChatRequest(
        list(messages),
        question=question,
        passages=[(passage.doc_id, passage.hit.text) for passage in passages],
        headings=[passage.section for passage in passages] if is_lookup else (),
        table_headers=[passage.hit.table_header for passage in passages],
        temperature=run.temperature,
        max_tokens=run.config.max_tokens,
        timeout_s=run.config.generate_timeout_s,
    )


def _sources(context: Context, hits: Sequence[Hit]) -> list[dict[str, Any]]:
    """Return what was looked at, those first that the model is shown, with the ids it cites."""
    rest = [{**hit.as_dict(), "doc_id": ""} for hit in hits[len(context.passages) :]]
    return [*serialize_sources(context.passages), *rest]


_MARK = re.compile(r"\[\d{1,3}\]")
_SHOWN_CHARACTERS = 4000
# Prompts for answers from documents.
_ENHANCED = ("answer", "react", "supervisor_merge")
# Elements of a prompt and the fields of the state that they show.
_BESIDE = {
    "conversation_summary": "summary",
    "memories": "memories",
    "page_context": "page_context",
}


def agent_messages(
    prompt: str, state: PipelineState, documents: str, run: PipelineRun
) -> list[Message]:
    """Return a prompt of the question's language, the turns before it, and what is asked.

    That is the documents, what is known of the conversation and the page, and the question.
    """
    language = language_of(state["query"])
    rules = "cite" if run.config.enable_source_citation else "no_cite"
    values = {
        "persona": escape_data(run.prompt.strip()),
        "citation_rules": prompt_file(f"{rules}_{language}").strip(),
    }
    parts = [documents] if documents else []
    for element, field in _BESIDE.items():
        if text := str(state.get(field) or ""):
            parts.append(f"<{element}>\n{escape_data(text)}\n</{element}>")
    query, rewritten = state["query"], state.get("rewritten_query") or ""
    asked = query if rewritten in ("", query) else f"{query}\n({rewritten})"
    told = f"<question>{escape_data(asked)}</question>"
    enhancement = run.config.enhancement
    if documents and prompt in _ENHANCED and enhancement != NO_ENHANCER:
        content = enhance_with(enhancement, told, "\n".join(parts))
    else:
        content = "\n".join([*parts, told])
    return [
        Message("system", fill_prompt(prompt_file(f"{prompt}_{language}"), values)),
        *_history_messages(state, run),
        Message("user", content),
    ]


def _history_messages(state: PipelineState, run: PipelineRun) -> list[Message]:
    """Return the turns before the question that the config allows, as data."""
    limit = 2 * run.config.history_turns
    turns: Sequence[Turn] = (state.get("history") or [])[-limit:] if limit else []
    # Marks of earlier answers number other sources than those shown now.
    return [
        Message(turn["role"], escape_data(_MARK.sub("", turn["content"][:_SHOWN_CHARACTERS])))
        for turn in turns
        if turn["role"] in ("user", "assistant") and turn["content"].strip()
    ]


# Documents escape what they hold: such a tag is one of ours.
_TAG = re.compile(r'<document id="doc_(\d+)"')


def number_documents(
    known: Sequence[Passage], hits: Sequence[Hit], run: PipelineRun, language_of: str
) -> tuple[list[Passage], str]:
    """Return all passages, those of ``hits`` that are new at the end, and what the model is told.

    That is the new ones as ``<documents>`` within the config's budget, and the ids of those that
    it has been shown before: a passage keeps its id for the whole run, however often it is found.
    """
    places = {passage_key(passage.hit): passage.doc_id for passage in known}
    fresh = {passage_key(hit): hit for hit in hits if passage_key(hit) not in places}
    again = [places[passage_key(hit)] for hit in hits if passage_key(hit) in places]
    context = build_context(
        list(fresh.values()),
        run.config.context_tokens,
        run.count_tokens,
        context_type="xml",
        language_of=language_of,
    )
    n = len(known)
    text = _TAG.sub(lambda tag: f'<document id="{doc_id_of(int(tag[1]) + n)}"', context.text)
    if again:
        text += f'\n<shown_before ids="{", ".join(dict.fromkeys(again))}"/>'
    new = [
        replace(passage, doc_id=doc_id_of(number + n))
        for number, passage in enumerate(context.passages, start=1)
    ]
    return [*known, *new], text.strip()
