"""Answers of flow runs as people read them: sentences that no source says, and what is cited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from rag.admin.operations.query_log import VERDICT_LABELS
from rag.admin.ui.cells import label

_COLOURS = {"grounded": "good", "partly": "warn"}


def answer_block(summary: Mapping[str, Any]) -> SafeString:
    """Return the answer of a run, what of it was found, and its citations; empty without one."""
    if not summary["answer"]:
        return SafeString()
    grounding = summary["grounding"] or {}
    return format_html(
        '{}<pre class="desk-text">{}</pre>{}',
        _head(grounding),
        _marked(summary["answer"], grounding.get("statements") or ()),
        format_html_join("", "<p>[{}] {} {}{}</p>", _cited(summary["citations"] or ())),
    )


def _head(grounding: Mapping[str, Any]) -> SafeString:
    if not grounding.get("n_statements"):
        return SafeString()
    n_all = grounding["n_statements"]
    words = _("{n} of {all} statements found in the sources")
    if n_all == 1:
        words = _("{n} of 1 statement found in the sources")
    text = words.format(n=grounding["n_found"], all=n_all)
    return format_html("<p>{}</p>", label(text, _COLOURS.get(grounding["verdict"], "bad")))


def _marked(text: str, statements: Any) -> SafeString:
    """Return a text in which what no source says is marked, and says so in words."""
    parts, at = list[tuple[Any]](), 0
    for one in statements:
        if one["verdict"] in ("cited", "attributed"):
            continue
        told = _("the source says otherwise")
        if one["verdict"] != "contradicted":
            told = _("not found in the sources")
        words = text[one["start"] : one["end"]]
        marked = format_html('<mark class="desk-unheld">{}</mark> {}', words, label(told, "bad"))
        parts += [(text[at : one["start"]],), (marked,)]
        at = one["end"]
    return format_html_join("", "{}", [*parts, (text[at:],)])


def _cited(citations: Any) -> Iterator[tuple[Any, ...]]:
    for one in citations:
        verdict = VERDICT_LABELS.get(one.get("verdict"), (one.get("verdict"), "idle"))
        page = _(", p. {n}").format(n=one["page"]) if one.get("page") else ""
        quote = one.get("found") or one.get("quote")
        told = format_html("{}{}", one.get("file_name") or "–", page)
        yield one.get("number") or "–", label(*verdict), told, f": “{quote}”" if quote else ""
