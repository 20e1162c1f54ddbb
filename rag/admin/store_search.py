"""The hit test of a store: the same search as everywhere, with all that led to each hit."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from rag.admin.cells import pages_text
from rag.admin.highlight import split_matches
from rag.admin.row_page import StorePage
from rag.admin.scoped import scope_for
from rag.admin.sentences import error_sentence
from rag.core.errors import RAGError
from rag.core.hits import Hit
from rag.core.types import FUSIONS, MODES, RetrievalSettings, SearchResult
from rag.services.search import search

MODE_NAMES = {
    "auto": _("automatic"), "semantic": _("by meaning"), "keyword": _("by words"),
    "hybrid": _("by meaning and words"),
}  # fmt: skip
FUSION_NAMES = {"weighted": _("weighted scores"), "rrf": _("ranks (RRF)")}
STEPS = {
    "access": _("access"), "analyze": _("reading the query"), "embed": _("embedding the query"),
    "sql": _("database"), "rerank": _("ranking again"), "total": _("in all"),
}  # fmt: skip


class SearchForm(forms.Form):
    """A question and the settings that a hit test plays with; empty ones are the store's own."""

    q = forms.CharField(label=_("Question or words"), max_length=4000, strip=True)
    mode = forms.ChoiceField(label=_("Search"), required=False)
    top_k = forms.IntegerField(label=_("Hits"), required=False, min_value=1, max_value=200)
    fusion = forms.ChoiceField(label=_("Fusion"), required=False)

    def __init__(self, *args: Any, own: RetrievalSettings, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        store_own = _("as the store: %(value)s")
        for name, names, known in (("mode", MODE_NAMES, MODES), ("fusion", FUSION_NAMES, FUSIONS)):
            value = names.get(getattr(own, name), getattr(own, name))
            first = ("", store_own % {"value": value})
            field: Any = self.fields[name]
            field.choices = [first, *((key, names.get(key, key)) for key in known)]

    def changes(self) -> dict[str, Any]:
        """Return what differs from the store's settings."""
        names = ("mode", "top_k", "fusion")
        return {name: self.cleaned_data[name] for name in names if self.cleaned_data[name]}


class StoreSearch(StorePage):
    """Asks a store and shows the hits with both legs' ranks and scores."""

    template_name = "admin/rag/store_search.html"
    permission_required = ("rag.view_store", "rag.view_file", "rag.view_chunk")
    title = _("Search")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the form and, when something was asked, what was found."""
        own = self._own_settings()
        form = SearchForm(self.request.GET if "q" in self.request.GET else None, own=own)
        context = {"form": form, "store": self.store, "own": asdict(own)}
        if form.is_bound and form.is_valid():
            context |= self._found(form, own)
        return super().get_context_data(**kwargs, **context)

    def _own_settings(self) -> RetrievalSettings:
        try:
            return self.store.retrieval_settings
        except RAGError:
            # Settings written past the form; the search itself will say what is wrong.
            return RetrievalSettings()

    def _found(self, form: SearchForm, own: RetrievalSettings) -> dict[str, Any]:
        try:
            settings = self.store.retrieval_settings.but(**form.changes())
            result = search(
                query=form.cleaned_data["q"], scope=scope_for(self.request), stores=[self.store],
                settings=settings,
            )  # fmt: skip
        except RAGError as error:
            return {"error": error_sentence(error)}
        return {
            "result": result,
            "hits": [_shown(hit) for hit in result.hits],
            "times": _times(result),
            "mode": MODE_NAMES.get(result.mode, result.mode),
            "settings": settings,
            "route": ", ".join(sorted(set(result.routes.values()))),
        }


def _shown(hit: Hit) -> dict[str, Any]:
    pieces = split_matches(hit.text, hit.matched_terms)
    matched = dict.fromkeys(piece.casefold() for piece, is_match in pieces if is_match)
    return {
        "hit": hit,
        "pages": pages_text(hit.page_first, hit.page_last),
        "pieces": pieces,
        # A term of the index is a stem; people know the word as it stands.
        "words": list(matched) or hit.matched_terms,
    }


def _times(result: SearchResult) -> list[tuple[Any, float]]:
    return [(STEPS.get(name, name), ms) for name, ms in result.timings_ms.items()]
