"""Admin actions of the store list: reindex, after a page that estimates size, time and cost."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from rag import models
from rag.admin.ui.action_confirmation import (
    confirmation_page,
    count_sentence,
    duration_sentence,
    is_confirmed,
)
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.scoped import ScopedAdmin, scope_for
from rag.core.errors import RAGError
from rag.services.reindex import estimate_reindex, queue_reindex, start_reindex

ReindexPart = models.ReindexRun.What


class ReindexPartForm(forms.Form):
    """Which part of the index is rebuilt: text, chunks, vectors or the lexical index."""

    what = forms.ChoiceField(label=gettext_lazy("make anew"), choices=ReindexPart.choices)


class StoreActions(ScopedAdmin):
    """Actions of the list of stores."""

    @admin.action(description=gettext_lazy("Reindex"), permissions=["change"])
    def index_again(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Start a reindex run for each chosen store; the present index serves meanwhile."""
        form = ReindexPartForm(
            request.POST if is_confirmed(request) else None, initial={"what": "parse"}
        )
        scope = scope_for(request)
        stores = list(queryset.editable(scope).filter(backend="local"))  # type: ignore[attr-defined]
        if not form.is_valid():
            sentences = [
                _("The chosen parts are made anew by the queue; what is there serves meanwhile."),
                *(sentence for store in stores for sentence in _sentences(store)),
            ]
            return confirmation_page(
                self, request, queryset, sentences=sentences, form=form, title=_("Please confirm")
            )
        n = 0
        for store in stores:
            try:
                run, is_new = start_reindex(
                    scope=scope, store=store, what=form.cleaned_data["what"]
                )
                queue_reindex(run_id=run.pk)
            except RAGError as error:
                self.message_user(request, error_sentence(error), messages.ERROR)
                continue
            n += is_new
        text = ngettext("%(n)d store is indexed anew.", "%(n)d stores are indexed anew.", n)
        self.message_user(request, text % {"n": n}, messages.SUCCESS if n else messages.WARNING)
        return None


def _sentences(store: models.Store) -> list[str]:
    try:
        vectors = estimate_reindex(store=store, what=ReindexPart.EMBEDDINGS)
        lexical = estimate_reindex(store=store, what=ReindexPart.LEXICAL)
    except RAGError as error:
        return [f"{store.name}: {error_sentence(error)}"]
    cost = ""
    if vectors.cost is not None and vectors.cost > 0:
        cost = _("It costs about %(cost)s.") % {"cost": f"{vectors.cost:.2f} {vectors.currency}"}
    return [
        f"{store.name}: {count_sentence(vectors.n_files, vectors.n_chunks)}",
        " ".join([_("All vectors:"), duration_sentence(vectors.seconds), cost]).strip(),
        " ".join([_("All words:"), duration_sentence(lexical.seconds)]),
    ]
