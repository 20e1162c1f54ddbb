"""RAG agent pipeline: LoadHistory, Route, Rewrite, Search, Rerank, Generate; or Converse.

A step more is one line: ``rag_pipeline().with_step(Step("glossary", glossary), after="search")``;
parallel steps and branches likewise. See ``agents.core.pipeline``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from agents.chat.pipelines.conversation import converse_step
from agents.chat.pipelines.generate_answer import generate_step
from agents.core.pipeline import Branch, Fallback, Pipeline, PipelineRun, PipelineState, Step
from agents.core.prompts import language_of
from agents.core.query_rewriting import (
    MAX_CHARACTERS,
    parse_rewritten,
    rewrite_fault,
    rewrite_messages,
)
from agents.core.recalled_memory import SEMANTIC, RecalledMemory, within_budget
from agents.core.state import Turn
from rag.core.errors import RAGError
from rag.core.hits import Hit
from rag.core.ports import ChatRequest
from rag.stages.query.condense import MAX_EARLIER, condense_question
from rag.stages.query.conversation_request import parse_conversation_request
from rag.stages.text.normalize import to_simplified


def rag_pipeline() -> Pipeline:
    """Return the steps in order, each with its time and its rule for failures."""
    steps = Pipeline(
        stages=(
            *opening_stages(),
            (Step("search", search_step, "search_timeout_s", search_failed),),
            (Step("rerank", rerank_step, "rerank_timeout_s", keep_search_order),),
            (Step("generate", generate_step, "generate_timeout_s"),),
        )
    )
    return with_routing(steps)


def opening_stages() -> tuple[tuple[Step, ...], ...]:
    """Return the stages before anything is looked for: load_history, route, rewrite.

    Recall and Page run beside Rewrite; an answer goes on without either.
    """
    no_history, no_memories = _instead(history=[], summary=""), _instead(memories="")
    no_page = _instead(page_hits=[], page_context="")
    return (
        (Step("load_history", load_history_step, 10.0, no_history, _if_set("has_history")),),
        (Step("route", route_step, 10.0, _instead(route="retrieve")),),
        (
            Step("rewrite", rewrite_step, "rewrite_timeout_s", _by_rules, _rewrites),
            Step("recall", recall_step, "memory_timeout_s", no_memories, _if_set("has_memory")),
            Step("page", page_step, "page_timeout_s", no_page, _if_set("has_page")),
        ),
    )


def with_routing(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with the ways from route: to rewrite, straight to generate, to converse.

    Converse stands at the end and answers what is asked of the answers before.
    """
    converse = Step("converse", converse_step, "generate_timeout_s", is_on=_is_conversation)
    whole = pipeline.with_step(converse, after="generate")
    return whole.with_branch("route", Branch(_way, ("rewrite", "generate", "converse")))


def _is_conversation(state: PipelineState) -> bool:
    return state.get("route") == "about_conversation"


def _way(state: PipelineState) -> str:
    if _is_conversation(state):
        return "converse"
    return "rewrite" if state.get("route", "retrieve") == "retrieve" else "generate"


def _rewrites(state: PipelineState) -> bool:
    # The first question of a session leans on nothing.
    return bool(state.get("enable_rewrite") and state.get("history"))


def _if_set(field: str) -> Callable[[PipelineState], bool]:
    return lambda state: bool(state.get(field))


def _instead(**fields: Any) -> Fallback:
    # No step changes in place what it is given.
    changed: Any = fields
    return lambda state, error: changed


def _by_rules(state: PipelineState, error: RAGError) -> PipelineState:
    earlier = earlier_questions(state.get("history") or [])
    return {"rewritten_query": condense_question(state["query"], earlier).text}


async def load_history_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``history`` and ``summary``."""
    history, summary = await run.load_history()
    return {"history": history, "summary": summary}


# The whole message must be small talk: «你好，保修期多久» is a question.
_SMALL_TALK = re.compile(
    r"(?:[你您]?好(?:呀|啊|吗)?|(?:你|您|大家)们?好|嗨|哈喽|哈啰|喂|在吗|在不在|"
    r"早(?:上好|安)?|(?:上午|中午|下午|晚上)好|晚安|"
    r"(?:多|非常|十分|太)?(?:谢谢?|感谢)(?:你|您|啦|了|[你您]的帮助)?|"
    r"辛苦了?|再见|拜拜|好的?|明白了?|知道了|收到|没(?:事|问题)了?|"
    r"[你您]是(?:谁|什么|机器人吗|人工智能吗)|[你您]叫什么(?:名字)?|"
    r"[你您](?:会|能)(?:做|干)?些?什么|[你您]能帮我做?什么|"
    r"hi(?: there)?|hello(?: there)?|hey(?: there)?|good (?:morning|afternoon|evening|night|day)|"
    r"(?:many )?thanks?(?: you)?(?: (?:so|very) much| a lot)?|thank you(?: (?:so|very) much)?|"
    r"thx|cheers|bye(?: bye)?|good ?bye|see you(?: later)?|ok(?:ay)?|great|got it|"
    r"how are you(?: doing)?(?: today)?|"
    r"who are you|what are you|what(?:'s| is) your name|what can you do(?: for me)?|"
    r"are you (?:a )?(?:bot|robot|human))",
    re.I,
)
_GAPS = re.compile(r"[\s,，.。!！?？~～、;；:：…\U0001F300-\U0001FAFF\u2600-\u27bf]+")
_MAX_CHARACTERS = 60


async def route_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``route_step``, with the ``facts`` that answer a question on the stores themselves."""
    query = state["query"]
    if is_small_talk(query):
        return {"route": "small_talk"}
    if _asks_of_answers(query, state.get("history") or []):
        return {"route": "about_conversation"}
    facts = await run.store_facts(query)
    return {"route": "about_store", "facts": facts} if facts else {"route": "retrieve"}


def _asks_of_answers(query: str, history: Sequence[Turn]) -> bool:
    has_answer = any(turn["role"] == "assistant" and turn["content"].strip() for turn in history)
    return has_answer and parse_conversation_request(query) is not None


def is_small_talk(text: str) -> bool:
    """Return whether a message is nothing but greetings, thanks and the like."""
    if len(text) > _MAX_CHARACTERS:
        return False
    plain = to_simplified(text)
    parts = [part for part in re.split(r"[,，.。!！?？;；~～\n]+", plain) if _GAPS.sub("", part)]
    return bool(parts) and all(_SMALL_TALK.fullmatch(_bare(part)) for part in parts)


def _bare(part: str) -> str:
    return " ".join(_GAPS.sub(" ", part).split())


_FACT = {"zh": "- 已知：{text}", "en": "- Known: {text}"}
_EPISODE = {
    "zh": "- {at}问过：{text}\n  当时回答：{answer}",
    "en": "- Asked on {at}: {text}\n  Answered then: {answer}",
}


async def recall_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``memories``, as lines; raise RAGError."""
    limit, count = run.config.memory_tokens, run.count_tokens
    lines = _lines(within_budget(await run.recall(state["query"]), limit, count), state["query"])
    while lines and count("\n".join(lines)) > limit:
        lines.pop()
    return {"memories": "\n".join(lines)}


def _lines(memories: Sequence[RecalledMemory], query: str) -> list[str]:
    language = language_of(query)
    lines = []
    for one in memories:
        form = _FACT if one.kind == SEMANTIC else _EPISODE
        at = one.at.date().isoformat() if one.at else ""
        text, answer = (" ".join(words.split()) for words in (one.text, one.answer))
        lines.append(form[language].format(text=text, answer=answer, at=at))
    return lines


async def page_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``page_hits`` and ``page_context``; what could not be read is told."""
    read = await run.read_page(state["query"])
    for failure in read.failures:
        await run.emit("notice", {"step": "page", "error": failure.as_dict()})
    return {"page_hits": list(read.hits), "page_context": read.about}


async def rewrite_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``rewritten_query``: the question as it stands alone, by the model or by the rules.

    The rules' question is taken where there is no model, and where that one writes none that can
    be believed; the event says why.
    """
    query, history = state["query"], state.get("history") or []
    by_rules = condense_question(query, earlier_questions(history))
    rewritten, told = by_rules.text, {"method": by_rules.method}
    if run.can_write:
        text = await _by_model(query, history, run)
        if fault := rewrite_fault(text, query, history, by_rules):
            told = {**told, "refused": fault, "text": text[:MAX_CHARACTERS]}
        else:
            rewritten, told = text, {"method": "model"}
    if rewritten != query or "refused" in told:
        await run.emit("rewrite", {"query": rewritten, "original": query, **told})
    return {"rewritten_query": rewritten}


def earlier_questions(history: Sequence[Turn]) -> list[str]:
    """Return the questions of a conversation that say what it is about, oldest first."""
    return [
        turn["content"]
        for turn in history[-2 * MAX_EARLIER :]
        if turn["role"] == "user" and not _is_aside(turn["content"])
    ]


def _is_aside(text: str) -> bool:
    return is_small_talk(text) or parse_conversation_request(text) is not None


async def _by_model(query: str, history: Sequence[Turn], run: PipelineRun) -> str:
    shown = history[-2 * run.config.history_turns :] if run.config.history_turns else history[-2:]
    request = ChatRequest(
        rewrite_messages(query, shown),
        question=query,
        temperature=0.0,
        max_tokens=512,
        timeout_s=run.config.rewrite_timeout_s,
    )
    return parse_rewritten((await run.ask(request)).text)


# So many candidates for each one that is kept are ranked again.
CANDIDATES_PER_HIT, MAX_CANDIDATES = 4, 20


async def search_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``search_results``, ``confidence``, ``answerability``, ``complexity``.

    Raises what the search raises.
    """
    top_k = state.get("top_k") or run.config.default_top_k
    if state.get("enable_rerank") and run.can_rank:
        top_k = max(top_k, min(MAX_CANDIDATES, CANDIDATES_PER_HIT * run.config.rerank_top_k))
    found = await run.search(state.get("rewritten_query") or state["query"], top_k)
    documents = found.metadata.get("documents") or {}
    if notice := documents.get("notice"):
        await run.emit("notice", {"step": "search", "text": notice})
    return {
        "is_lookup": bool(documents.get("is_found")),
        "search_results": list(found.hits),
        "confidence": found.confidence,
        "answerability": found.answerability,
        "search_error": None,
        "complexity": str(found.metadata.get("complexity") or ""),
    }


def search_failed(state: PipelineState, error: RAGError) -> PipelineState:
    """Return the state of a search that failed: nothing found, and why."""
    return {"search_results": [], "search_error": error.as_dict(), "confidence": 0.0}


# So few are all read anyway.
MIN_RERANKED = 3


async def rerank_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``reranked_results``: as found, or in the order of whoever ranks again.

    Only more than three hits are ranked, and only where somebody can: a chat model that writes, or
    an endpoint. Raises RAGError when that one fails.
    """
    hits = state.get("search_results") or []
    if state.get("is_lookup"):
        # A document's passages in its own order.
        return {"reranked_results": list(hits)}
    if not state.get("enable_rerank") or len(hits) <= MIN_RERANKED or not run.can_rank:
        return {"reranked_results": _kept(hits, _n_kept(state, run))}
    query = state.get("rewritten_query") or state["query"]
    ranked = await run.rerank(query, hits)
    update: PipelineState = {"reranked_results": _kept(ranked.hits, run.config.rerank_top_k)}
    if ranked.confidence is not None:
        judged = state.get("answerability")
        most = judged.most_confidence if judged else 1.0
        update["confidence"] = min(ranked.confidence, most)
    return update


def keep_search_order(state: PipelineState, error: RAGError) -> PipelineState:
    """Return the hits in the order of the search: nobody could rank them again."""
    return {"reranked_results": _kept(state.get("search_results") or [], state.get("top_k") or 5)}


def _n_kept(state: PipelineState, run: PipelineRun) -> int:
    return state.get("top_k") or run.config.default_top_k


def _kept(hits: Sequence[Hit], n: int) -> list[Hit]:
    return [replace(hit, rank=rank) for rank, hit in enumerate(hits[:n], start=1)]
