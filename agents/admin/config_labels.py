"""Labels of the agent config's fields and choices."""

from __future__ import annotations

from typing import Any

from django.forms.utils import pretty_name
from django.utils.translation import gettext_lazy as _

_LABELS = {
    "default_top_k": _("Results for the model"),
    "min_confidence_score": _("Least certainty"),
    "search_mode": _("Search"),
    "enable_source_citation": _("Cite sources"),
    "enable_query_rewrite": _("Make questions stand alone"),
    "enable_rerank": _("Rank again"),
    "rerank": _("Ranked again by"),
    "rerank_top_k": _("Results after ranking again"),
    "vector_threshold": _("Similarity threshold"),
    "bm25_threshold": _("Least word score"),
    "unanswerable": _("Without an answer in the results"),
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
    "answer": _("answer anyway"),
    "warn": _("answer with a warning"),
    "refuse": _("say that it is not there"),
    "mark": _("mark it"),
    "drop": _("drop its sentence"),
    "repair": _("ask the model to repair the answer"),
    "rule": _("the first question"),
    "model": _("a few words by the model"),
    "native": _("by the model's own calls"),
    "text": _("in JSON that it writes"),
}


def config_label(name: str) -> Any:
    """Return the label; a field that has none here is called by its name."""
    return _LABELS.get(name) or pretty_name(name)


def choice_label(value: str) -> Any:
    """Return what a value that can be chosen is called; one without a name here is its own."""
    return _CHOICES.get(value, value)
