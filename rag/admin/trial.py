"""One trial of the hit test as its page shows it. In: a trial. Out: a template's context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from rag.admin.cells import pages_text
from rag.admin.highlight import split_matches
from rag.admin.settings_form import MODE_NAMES
from rag.core.hits import Hit
from rag.services.playground import Trial

STEPS = {
    "access": gettext_lazy("access"), "analyze": gettext_lazy("reading the query"),
    "embed": gettext_lazy("embedding the query"), "sql": gettext_lazy("database"),
    "search": gettext_lazy("whole search"), "refine": gettext_lazy("tidying"),
    "rerank": gettext_lazy("ranking again"), "cache": gettext_lazy("cache"),
    "model": gettext_lazy("chat model"), "cite": gettext_lazy("checking citations"),
    "total": gettext_lazy("in all"),
}  # fmt: skip
WAYS = {
    "exact": gettext_lazy("compared one by one"), "hnsw": gettext_lazy("by the index"),
    "partial": gettext_lazy("by the store's own index"),
}  # fmt: skip
INTENTS = {
    "find_specific": gettext_lazy("find something named"), "lookup": gettext_lazy("look up"),
    "understand": gettext_lazy("understand"), "explore": gettext_lazy("explore"),
    "compare": gettext_lazy("compare"), "general": gettext_lazy("general"),
}  # fmt: skip
COMPLEXITIES = {
    "simple": gettext_lazy("simple"), "medium": gettext_lazy("medium"),
    "complex": gettext_lazy("complex"),
}  # fmt: skip

_FALLBACKS = {
    "nothing_found": gettext_lazy("nothing was found"),
    "few_words": gettext_lazy("the first hit holds too few of the words"),
    "missing_name": gettext_lazy("no hit holds the name in the question"),
}  # fmt: skip


def shown_trial(trial: Trial, *, others: Sequence[Trial]) -> dict[str, Any]:
    """Return hits with words marked and their rank in ``others``, analysis, times, context."""
    retrieval, result = trial.retrieval, trial.retrieval.result
    analysis = retrieval.analysis
    found = {hit.chunk_id for hit in retrieval.hits}
    times = retrieval.metadata["timings_ms"]
    return {
        "trial": trial,
        "result": result,
        "settings": trial.settings,
        "hits": [_shown(hit, trial, others) for hit in retrieval.hits],
        "mode": MODE_NAMES.get(result.mode, result.mode),
        "times": [(STEPS.get(name, name), times[name]) for name in STEPS if name in times],
        "route": ", ".join(str(WAYS.get(way, way)) for way in sorted(set(result.routes.values()))),
        "intent": INTENTS.get(analysis.intent, analysis.intent),
        "complexity": COMPLEXITIES.get(analysis.complexity, analysis.complexity),
        "analysis": analysis,
        "metadata": retrieval.metadata,
        "fallbacks": ", ".join(
            str(_FALLBACKS.get(reason, reason))
            for reason in retrieval.metadata["fallback_reasons"].values()
        ),
        "missing": [
            one for one in trial.expected
            if one.chunk_ids is not None and not one.chunk_ids & found
        ],
    }  # fmt: skip


def _shown(hit: Hit, trial: Trial, others: Sequence[Trial]) -> dict[str, Any]:
    pieces = split_matches(hit.text, hit.matched_terms)
    matched = dict.fromkeys(piece.casefold() for piece, is_match in pieces if is_match)
    return {
        "hit": hit,
        "pages": pages_text(hit.page_first, hit.page_last),
        "pieces": pieces,
        # A term of the index is a stem; people know the word as it stands.
        "words": list(matched) or hit.matched_terms,
        "is_expected": any(
            hit.file_id == one.file_id if one.chunk_ids is None else hit.chunk_id in one.chunk_ids
            for one in trial.expected
        ),
        "elsewhere": _place_in(others[0], hit) if others else "",
    }


def _place_in(other: Trial, hit: Hit) -> str:
    """Return what the other settings made of a hit, in words."""
    for there in other.retrieval.hits:
        if there.chunk_id == hit.chunk_id:
            moved = there.rank - hit.rank
            return _("the same place") if not moved else _("there at %(n)d") % {"n": there.rank}
    return _("not there")
