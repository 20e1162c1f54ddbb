"""Prompts of agents: messages with persona, history and sources; data never leaves its element."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from agents.core.pipeline import PipelineRun, PipelineState
from agents.core.prompts import fill_prompt, prompt_file
from agents.core.state import Turn
from rag.core.types import Citation, Message
from rag.stages.prompting.context import Context

_HAN = re.compile(r"[\u3400-\u9fff]")
_LETTER = re.compile(r"[^\W\d_]")
# What no XML holds, escaped or not.
_FORBIDDEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def language_of(text: str) -> str:
    """Return zh or en, by the letters of a text."""
    n_han = len(_HAN.findall(text))
    return "zh" if n_han and n_han >= 0.3 * len(_LETTER.findall(text)) else "en"


def escape_data(text: str) -> str:
    """Return a text that stays inside its element, whatever it holds."""
    return escape(_FORBIDDEN.sub("", text))


def quote_attribute(text: str) -> str:
    """Return a text as the quoted value of an attribute, whatever it holds."""
    return quoteattr(_FORBIDDEN.sub("", text), {"\n": " ", "\r": " ", "\t": " "})


_MARK = re.compile(r"\[\d{1,3}\]")
_SHOWN_CHARACTERS = 4000
# Elements of a prompt and the fields of the state that they show.
_BESIDE = {
    "conversation_summary": "summary",
    "memories": "memories",
    "page_context": "page_context",
}


def answer_messages(state: PipelineState, context: Context, run: PipelineRun) -> list[Message]:
    """Return the messages of an answer from sources, with the turns before it."""
    language = language_of(state["query"])
    rules = "cite" if run.config.enable_source_citation else "no_cite"
    system = fill_prompt(
        prompt_file(f"answer_{language}"),
        {
            "persona": escape_data(run.prompt.strip()),
            "citation_rules": prompt_file(f"{rules}_{language}").strip(),
        },
    )
    asked = question_text(state, context.text)
    return [Message("system", system), *history_messages(state, run), Message("user", asked)]


def question_text(state: PipelineState, documents: str) -> str:
    """Return documents, what is known of the conversation and the page, and the question."""
    parts = [documents] if documents else []
    for element, field in _BESIDE.items():
        if text := str(state.get(field) or ""):
            parts.append(f"<{element}>\n{escape_data(text)}\n</{element}>")
    return "\n".join([*parts, f"<question>{escape_data(_asked(state))}</question>"])


def small_talk_messages(state: PipelineState, run: PipelineRun) -> list[Message]:
    """Return the messages of a friendly word."""
    text = prompt_file(f"small_talk_{language_of(state['query'])}")
    system = fill_prompt(text, {"persona": escape_data(run.prompt.strip())})
    return [
        Message("system", system),
        Message("user", f"<question>{escape_data(state['query'])}</question>"),
    ]


def repair_messages(
    asked: Sequence[Message], answer: str, failed: Sequence[Citation], language: str
) -> list[Message]:
    """Return the request for the same answer with quotes that hold."""
    listed = "\n".join(
        f"- doc_id={quote_attribute(one.doc_id)} quote={quote_attribute(one.quote)}"
        + (f" → {escape_data(one.found)}" if one.found else "")
        for one in failed
    )
    text = fill_prompt(prompt_file(f"repair_citations_{language}"), {"failed": listed})
    return [*asked, Message("assistant", answer), Message("user", text)]


def _asked(state: PipelineState) -> str:
    query, rewritten = state["query"], state.get("rewritten_query") or ""
    return query if rewritten in ("", query) else f"{query}\n({rewritten})"


def history_messages(state: PipelineState, run: PipelineRun) -> list[Message]:
    """Return the turns before the question that the config allows, as data."""
    limit = 2 * run.config.history_turns
    turns: Sequence[Turn] = (state.get("history") or [])[-limit:] if limit else []
    # Marks of earlier answers number other sources than those shown now.
    return [
        Message(turn["role"], escape_data(_MARK.sub("", turn["content"][:_SHOWN_CHARACTERS])))
        for turn in turns
        if turn["role"] in ("user", "assistant") and turn["content"].strip()
    ]
