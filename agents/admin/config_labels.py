"""Labels of the agent config's fields and choices."""

from __future__ import annotations

from typing import Any

from django.forms.utils import pretty_name
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

_LABELS = {
    "default_top_k": _("Results for the model"),
    "min_confidence_score": _("Least certainty"),
    "search_mode": _("Search"),
    "enable_source_citation": _("Cite sources"),
    "enable_query_rewrite": _("Make questions stand alone"),
    "enable_rerank": _("Rank again"),
    "rerank": _("Ranked again by"),
    "rerank_top_k": _("Results after ranking again"),
    "vector_threshold": _("Least likeness"),
    "bm25_threshold": _("Least word score"),
    "citation_failure": _("A quote that does not hold"),
    "max_tokens": _("Longest answer, in tokens"),
    "context_tokens": _("Sources, in tokens"),
    "history_turns": _("Earlier turns"),
    "summary_tokens": _("Summary, in tokens"),
    "tools": _("Tools"),
    "sources": _("Data sources"),
    "agents": _("Agents"),
    "tool_calling": _("How tools are called"),
    "enable_fast_path": _("Short cut for simple questions"),
    "fast_path_confidence": _("Certainty for the short cut"),
    "max_tool_calls": _("Most calls of tools"),
    "run_tokens": _("Most tokens of a run"),
    "run_timeout_s": _("Longest run, in seconds"),
    "tool_timeout_s": _("Longest call of a tool, in seconds"),
    "session_titles": _("Titles of conversations"),
    "enable_memory": _("Memory"),
    "memory_project": _("Memory is shared under"),
    "memory_tokens": _("Memory, in tokens"),
    "page_tokens": _("What a page sends along, in tokens"),
    "memory_timeout_s": _("Longest time to remember, in seconds"),
    "page_timeout_s": _("Longest time to read a page, in seconds"),
    "rewrite_timeout_s": _("Longest rewrite, in seconds"),
    "search_timeout_s": _("Longest search, in seconds"),
    "rerank_timeout_s": _("Longest ranking, in seconds"),
    "generate_timeout_s": _("Longest writing, in seconds"),
}

# What can be chosen, by its value.
_CHOICES = {
    "auto": _("automatic"),
    "semantic": _("by meaning"),
    "keyword": _("by words"),
    "hybrid": _("by meaning and words"),
    "llm": _("chat model"),
    "endpoint": _("rerank service"),
    "mixed": _("service, then chat model"),
    "mark": _("mark it"),
    "drop": _("drop its sentence"),
    "repair": _("ask the model to repair the answer"),
    "rule": _("the first question"),
    "model": _("a few words by the model"),
    "native": _("by the model's own calls"),
    "text": _("in JSON that it writes"),
}

# What the config says of its values: marked here to be translated, since its room knows no Django.
HELP = (
    gettext_noop("How many results are given to the model."),
    gettext_noop("Below it the agent says that it does not know."),
    gettext_noop("How to search; auto asks words and meaning, or words alone for a code or quote."),
    gettext_noop("The answer cites its sources."),
    gettext_noop("A question that leans on the conversation is made to stand alone."),
    gettext_noop("Results are ranked again by a model."),
    gettext_noop("Who ranks again; mixed weighs the vector score in."),
    gettext_noop("How many results are kept after ranking again."),
    gettext_noop("A result found by meaning alone needs this likeness."),
    gettext_noop("A result found by words needs this BM25 score."),
    gettext_noop(
        "A quote that its source does not hold: mark it, drop its sentence, or ask the model once "
        "to repair the answer."
    ),
    gettext_noop("Most tokens of an answer."),
    gettext_noop("Most tokens of the sources."),
    gettext_noop("How many earlier turns the model is shown."),
    gettext_noop("Most tokens of the summary of what came before; 0 keeps none."),
    gettext_noop("Which tools the model may call."),
    gettext_noop("Data sources that the model may ask, by the name it calls them."),
    gettext_noop("To which agents questions are passed on, by name."),
    gettext_noop(
        "Tools are called by the model's own function calling (native), or in JSON that it writes "
        "(text); auto takes the first where the model has it."
    ),
    gettext_noop("A simple question whose search is sure is answered without a loop of tools."),
    gettext_noop("How sure the search must be for that."),
    gettext_noop("Most calls of tools in one answer."),
    gettext_noop("Most tokens, in and out, before a loop of tools must come to its answer."),
    gettext_noop("Longest time for a loop of tools or of agents."),
    gettext_noop("Longest time for one call of a tool."),
    gettext_noop("Titles of sessions: the first question, or a few words by the model."),
    gettext_noop("What a person told and asked is remembered for their later sessions."),
    gettext_noop("Agents with the same word here share what they remember; empty: its own name."),
    gettext_noop("Most tokens of what is remembered."),
    gettext_noop("Most tokens of what a page sends along: selected text and documents."),
    gettext_noop("Longest time to remember."),
    gettext_noop("Longest time to read what a page sends along."),
    gettext_noop("Longest time for a rewrite."),
    gettext_noop("Longest time for a search."),
    gettext_noop("Longest time for ranking again."),
    gettext_noop("Longest time for an answer."),
)


def config_label(name: str) -> Any:
    """Return the label; a field that has none here is called by its name."""
    return _LABELS.get(name) or pretty_name(name)


def choice_label(value: str) -> Any:
    """Return what a value that can be chosen is called; one without a name here is its own."""
    return _CHOICES.get(value, value)
