"""Admin actions of the file list: reindex, re-embed, enable, disable, move, export.

Each that changes something asks for confirmation first.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Q, QuerySet, Sum
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
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
from rag.admin.ui.scoped import ScopedAdmin, local_stores, row_ids, scope_for
from rag.core.errors import RAGError
from rag.services.files import (
    export_chunks,
    move_files,
    retry_files,
    set_files_enabled,
    stream_lines,
)
from rag.services.reindex import estimate_reindex

# More is a matter for a command: a request should not take minutes.
MAX_MOVED = 200
_EDITED = ~Q(origin=models.Chunk.Origin.PARSED) | Q(enabled=False)


class MoveFilesForm(forms.Form):
    """The store that files are moved to."""

    target = forms.ModelChoiceField(
        label=gettext_lazy("to the store"), queryset=models.Store.objects.none()
    )

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field: Any = self.fields["target"]
        field.queryset = local_stores(request)


class FileActions(ScopedAdmin):
    """Actions of the list of files."""

    @admin.action(description=gettext_lazy("Reparse and reindex"), permissions=["change"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Queue the chosen files; their present chunks serve meanwhile."""
        sentence = _("The files are read and cut anew; only chunks that changed get new vectors.")
        if not is_confirmed(request):
            return self._page(request, queryset, [sentence], "chunks")
        self._queued(request, retry_files(scope=scope_for(request), file_ids=row_ids(queryset)))
        return None

    @admin.action(description=gettext_lazy("Re-embed all chunks"), permissions=["change"])
    def vectors(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Queue the chosen files to get new vectors for every chunk."""
        sentence = _("The files are read anew, and every chunk gets a new vector.")
        if not is_confirmed(request):
            return self._page(request, queryset, [sentence], "embeddings")
        self._queued(
            request,
            retry_files(scope=scope_for(request), file_ids=row_ids(queryset), fresh_vectors=True),
        )
        return None

    @admin.action(description=gettext_lazy("Enable all chunks"), permissions=["change"])
    def enable(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Let all chunks of the chosen files be found."""
        return self._switch(request, queryset, True)

    @admin.action(description=gettext_lazy("Disable all chunks"), permissions=["change"])
    def disable(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Keep all chunks of the chosen files out of every search."""
        return self._switch(request, queryset, False)

    @admin.action(description=gettext_lazy("Move to another store"), permissions=["delete"])
    def move(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Move the chosen files to another store."""
        form = MoveFilesForm(request.POST if is_confirmed(request) else None, request=request)
        ids = row_ids(queryset)
        if len(ids) > MAX_MOVED:
            text = _("Choose up to %(n)d files.") % {"n": MAX_MOVED}
            self.message_user(request, text, messages.ERROR)
            return None
        if not form.is_valid():
            n = models.Chunk.objects.live().filter(_EDITED, file__in=ids).count()
            sentences = [
                _("The files are copied to another store, read anew there and deleted here."),
                ngettext(
                    "%(n)d chunk that was edited, added or switched off does not go along.",
                    "%(n)d chunks that were edited, added or switched off do not go along.",
                    n,
                )
                % {"n": n}
                if n
                else _("No edited chunk is among them."),
            ]
            return self._page(request, queryset, sentences, "embeddings", form)
        try:
            moved = move_files(
                scope=scope_for(request), file_ids=ids, target=form.cleaned_data["target"]
            )
        except RAGError as error:
            self.message_user(request, error_sentence(error), messages.ERROR)
            return None
        n = moved.n_moved
        text = ngettext("%(n)d file was moved.", "%(n)d files were moved.", n) % {"n": n}
        self.message_user(request, text, messages.SUCCESS if n else messages.WARNING)
        for name, problem in moved.problems:
            self.message_user(request, f"{name}: {error_sentence(problem)}", messages.ERROR)
        return None

    @admin.action(description=gettext_lazy("Export chunks (JSON lines)"), permissions=["view"])
    def export(self, request: HttpRequest, queryset: QuerySet[Any]) -> StreamingHttpResponse:
        """Return the chunks of the chosen files as a download."""
        lines = export_chunks(scope=scope_for(request), file_ids=row_ids(queryset))
        pieces = stream_lines(lines=lines)
        response = StreamingHttpResponse(pieces, content_type="application/x-ndjson")
        response["Content-Disposition"] = 'attachment; filename="chunks.jsonl"'
        return response

    def _switch(
        self, request: HttpRequest, queryset: QuerySet[Any], enabled: bool
    ) -> HttpResponse | None:
        sentence = (
            _("Every chunk of the files may be found again, those that were switched off too.")
            if enabled
            else _("No chunk of the files is found any more; nothing is deleted.")
        )
        if not is_confirmed(request):
            return self._page(request, queryset, [sentence], "")
        n = set_files_enabled(scope=scope_for(request), file_ids=row_ids(queryset), enabled=enabled)
        if enabled:
            text = ngettext("%(n)d chunk was switched on.", "%(n)d chunks were switched on.", n)
        else:
            text = ngettext("%(n)d chunk was switched off.", "%(n)d chunks were switched off.", n)
        self.message_user(request, text % {"n": n}, messages.SUCCESS if n else messages.WARNING)
        return None

    def _queued(self, request: HttpRequest, n: int) -> None:
        text = ngettext("%(n)d file was queued.", "%(n)d files were queued.", n) % {"n": n}
        self.message_user(request, text, messages.SUCCESS if n else messages.WARNING)

    def _page(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        sentences: list[str],
        what: str,
        form: forms.Form | None = None,
    ) -> HttpResponse:
        mine = models.File.objects.editable(scope_for(request)).filter(pk__in=row_ids(queryset))
        n_chunks = mine.aggregate(n=Sum("n_chunks"))["n"] or 0
        sentences = [*sentences, count_sentence(mine.count(), n_chunks), *_duration(mine, what)]
        return confirmation_page(
            self, request, queryset, sentences=sentences, form=form, title=_("Please confirm")
        )


def _duration(files: QuerySet[Any], what: str) -> list[str]:
    """Return the estimated duration, measured on a sample of each local store's chunks."""
    if not what:
        return []
    seconds: float | None = 0.0
    stores = models.Store.objects.filter(files__in=files, backend="local").distinct()
    for store in stores:
        ids = list(files.filter(store=store).values_list("pk", flat=True))
        try:
            estimate = estimate_reindex(store=store, what="embeddings", file_ids=ids).seconds
        except RAGError as error:
            return [error_sentence(error)]
        seconds = None if estimate is None or seconds is None else seconds + estimate
    sentence = duration_sentence(seconds)
    if what != "embeddings":
        return [_("At most, when every chunk changed:") + " " + sentence]
    return [sentence]
