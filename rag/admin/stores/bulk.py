"""Whole stores indexed anew: what, how much and how long is said before it is done."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from rag import models
from rag.admin.ui.bulk import confirmation, count_sentence, is_confirmed, time_sentence
from rag.admin.ui.messages import error_sentence
from rag.admin.ui.scoped import scope_for
from rag.core.errors import RAGError
from rag.services.reindex.estimate import estimate_reindex
from rag.services.reindex.runs import queue_run, start_run

Whats = models.ReindexRun.What


class WhatForm(forms.Form):
    """What is made anew."""

    what = forms.ChoiceField(label=gettext_lazy("make anew"), choices=Whats.choices)


class StoreBulk:
    """Actions of the list of stores."""

    message_user: Any

    @admin.action(description=gettext_lazy("Index again"), permissions=["change"])
    def index_again(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Order the chosen stores to be indexed anew; what is there serves meanwhile."""
        form = WhatForm(request.POST if is_confirmed(request) else None, initial={"what": "parse"})
        scope = scope_for(request)
        stores = list(queryset.editable(scope).filter(backend="local"))  # type: ignore[attr-defined]
        if not form.is_valid():
            said = [
                _("The chosen parts are made anew by the queue; what is there serves meanwhile."),
                *(sentence for store in stores for sentence in _sentences(store)),
            ]
            return confirmation(
                self, request, queryset, said=said, form=form, title=_("Please confirm")
            )
        n = 0
        for store in stores:
            try:
                run, is_new = start_run(scope=scope, store=store, what=form.cleaned_data["what"])
                queue_run(run_id=run.pk)
            except RAGError as error:
                self.message_user(request, error_sentence(error), messages.ERROR)
                continue
            n += is_new
        text = ngettext("%(n)d store is indexed anew.", "%(n)d stores are indexed anew.", n)
        self.message_user(request, text % {"n": n}, messages.SUCCESS if n else messages.WARNING)
        return None


def _sentences(store: models.Store) -> list[str]:
    try:
        told = estimate_reindex(store=store, what=Whats.EMBEDDINGS)
        words = estimate_reindex(store=store, what=Whats.LEXICAL)
    except RAGError as error:
        return [f"{store.name}: {error_sentence(error)}"]
    cost = ""
    if told.cost is not None and told.cost > 0:
        cost = _("It costs about %(cost)s.") % {"cost": f"{told.cost:.2f} {told.currency}"}
    return [
        f"{store.name}: {count_sentence(told.n_files, told.n_chunks)}",
        " ".join([_("All vectors:"), time_sentence(told.seconds), cost]).strip(),
        " ".join([_("All words:"), time_sentence(words.seconds)]),
    ]
