"""Confirmation page of an admin action: what will be done, to how much, and how long it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib.admin import helpers
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

N_NAMED = 20


def is_confirmed(request: HttpRequest) -> bool:
    """Return whether the person has seen the page and said yes."""
    return request.POST.get("confirmed") == "yes"


def confirmation_page(
    model_admin: Any,
    request: HttpRequest,
    queryset: QuerySet[Any],
    *,
    sentences: Sequence[Any],
    form: forms.Form | None = None,
    title: Any = "",
) -> HttpResponse:
    """Return the confirmation page, which says what will happen to the rows and how long it takes.

    The selection is posted again: the checked rows, or all rows that the list's filters leave.
    """
    names = [str(row) for row in queryset[:N_NAMED]]
    context = {
        **model_admin.admin_site.each_context(request),
        "title": title,
        "opts": model_admin.opts,
        "sentences": sentences,
        "form": form,
        "names": names,
        "n_more": max(0, queryset.count() - len(names)),
        "box": helpers.ACTION_CHECKBOX_NAME,
        "chosen": request.POST.getlist(helpers.ACTION_CHECKBOX_NAME),
        "action": request.POST.get("action", ""),
        "across": request.POST.get("select_across", "0"),
        "index": request.POST.get("index", "0"),
    }
    return TemplateResponse(request, "admin/rag/bulk_confirm.html", context)


def duration_sentence(seconds: float | None) -> str:
    """Return how long something takes in words; None: it cannot be known before."""
    if seconds is None:
        return _("How long it takes depends on the model's service.")
    if seconds < 60:
        n = max(1, round(seconds))
        text = ngettext("It takes about %(n)d second.", "It takes about %(n)d seconds.", n)
    elif seconds < 5400:
        n = round(seconds / 60)
        text = ngettext("It takes about %(n)d minute.", "It takes about %(n)d minutes.", n)
    else:
        n = round(seconds / 3600)
        text = ngettext("It takes about %(n)d hour.", "It takes about %(n)d hours.", n)
    return text % {"n": n}


def count_sentence(n_files: int, n_chunks: int) -> str:
    """Return a sentence with the numbers of files and chunks concerned."""
    files = ngettext("%(n)d file", "%(n)d files", n_files) % {"n": n_files}
    chunks = ngettext("%(n)d chunk", "%(n)d chunks", n_chunks) % {"n": n_chunks}
    return _("This is about %(files)s with %(chunks)s.") % {"files": files, "chunks": chunks}
