"""Labels of the agent config's fields and choices."""

from __future__ import annotations

from typing import Any

from django.forms.utils import pretty_name
from django.utils.translation import gettext_lazy as _

_LABELS = {
    "default_top_k": _("Results for the model"),
    "min_confidence_score": _("Minimum confidence"),
    "search_mode": _("Search"),
    "enable_source_citation": _("Cite sources"),
    "enable_query_rewrite": _("Question rewriting"),
    "enhancement": _("Prompt enhancer"),
    "enable_rerank": _("Rerank"),
    "rerank": _("Reranker"),
    "rerank_top_k": _("Results after reranking"),
    "vector_threshold": _("Similarity threshold"),
    "bm25_threshold": _("Keyword score threshold"),
    "unanswerable": _("Without an answer in the results"),
    "citation_failure": _("A quote that does not hold"),
    "enable_footnotes": _("Footnotes for OpenAI's clients"),
    "max_tokens": _("Max answer tokens"),
    "context_tokens": _("Sources, in tokens"),
    "history_turns": _("Earlier turns"),
    "summary_tokens": _("Summary, in tokens"),
    "tools": _("Tools"),
    "sources": _("Data sources"),
    "mcp_servers": _("MCP servers"),
    "agents": _("Agents"),
    "tool_calling": _("How tools are called"),
    "enable_fast_path": _("Short cut for simple questions"),
    "fast_path_confidence": _("Confidence for the short cut"),
    "max_tool_calls": _("Max tool calls"),
    "run_tokens": _("Max tokens of a run"),
    "run_timeout_s": _("Run timeout, in seconds"),
    "tool_timeout_s": _("Tool call timeout, in seconds"),
    "session_titles": _("Titles of conversations"),
    "suggested_questions": _("Suggested questions"),
    "enable_memory": _("Memory"),
    "memory_project": _("Memory is shared under"),
    "memory_tokens": _("Memory, in tokens"),
    "page_tokens": _("What a page sends along, in tokens"),
    "memory_timeout_s": _("Memory timeout, in seconds"),
    "page_timeout_s": _("Page reading timeout, in seconds"),
    "rewrite_timeout_s": _("Rewriting timeout, in seconds"),
    "search_timeout_s": _("Search timeout, in seconds"),
    "rerank_timeout_s": _("Rerank timeout, in seconds"),
    "generate_timeout_s": _("Generation timeout, in seconds"),
}

# What can be chosen, by its value.
_CHOICES = {
    "auto": _("automatic"),
    "semantic": _("vector search"),
    "keyword": _("full-text search"),
    "hybrid": _("hybrid search"),
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
    "none": _("no enhancer"),
    "standard": _("Standard: keep to the sources"),
    "creative": _("Creative: write on, in agreement with the sources"),
    "analytical": _("Analytical: reason from the sources"),
}


def config_label(name: str) -> Any:
    """Return the label; a field that has none here is called by its name."""
    return _LABELS.get(name) or pretty_name(name)


def choice_label(value: str) -> Any:
    """Return what a value that can be chosen is called; one without a name here is its own."""
    return _CHOICES.get(value, value)
