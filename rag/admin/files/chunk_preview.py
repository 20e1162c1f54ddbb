"""Chunk preview: how a file would be split by another size or overlap; stored only on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from rag import models
from rag.admin.ui.admin_page import ObjectPage
from rag.admin.ui.messages import error_sentence, warning_sentence
from rag.admin.ui.query_params import parse_int
from rag.admin.ui.scoped import scope_for
from rag.core.documents import Chunk, ChunkRule
from rag.core.errors import RAGError
from rag.services.ingest import preview_chunks
from rag.services.stores import update_store


@dataclass(frozen=True, slots=True)
class PreviewSpan:
    """A stretch of text in one chunk, in none, or where a chunk repeats the end of the one before.

    ``number`` counts from 1 and is given where the chunk begins; ``parity`` is its colour.
    """

    text: str
    parity: int | None = None
    number: int | None = None
    n_tokens: int = 0
    is_repeated: bool = False
    is_kept: bool = False


def split_by_chunks(
    text: str, window: tuple[int, int], chunks: Sequence[Chunk], kept: Sequence[tuple[int, int]]
) -> list[PreviewSpan]:
    """Return the spans of ``text[window]`` in order; joined they equal that text."""
    start, end = window
    near = [
        (number, chunk)
        for number, chunk in enumerate(chunks, start=1)
        if chunk.char_start < end and chunk.char_end > start
    ]
    holes = [span for span in kept if span[0] < end and span[1] > start]
    cuts = {start, end}
    for _number, chunk in near:
        cuts |= {chunk.char_start, chunk.own_start, chunk.char_end}
    for span in holes:
        cuts |= set(span)
    places = sorted(cut for cut in cuts if start <= cut <= end)
    return [_piece(text, first, last, near, holes) for first, last in pairwise(places)]


def _piece(
    text: str,
    first: int,
    last: int,
    near: Sequence[tuple[int, Chunk]],
    holes: Sequence[tuple[int, int]],
) -> PreviewSpan:
    words = text[first:last]
    if any(low <= first < high for low, high in holes):
        return PreviewSpan(words, is_kept=True)
    repeated = any(chunk.char_start <= first < chunk.own_start for _number, chunk in near)
    for number, chunk in near:
        if chunk.own_start <= first < chunk.char_end:
            begins = first == chunk.own_start
            return PreviewSpan(
                words, number % 2, number if begins else None, chunk.token_count, repeated
            )
    return PreviewSpan(words, is_repeated=repeated)


WINDOW = 12_000
MAX_FILES = 100


class ChunkRuleForm(forms.Form):
    """Chunk size and overlap to try."""

    size = forms.IntegerField(label=gettext_lazy("chunk size"), min_value=50, max_value=500)
    overlap = forms.IntegerField(label=gettext_lazy("overlap"), min_value=0, max_value=100)


class ChunkPreviewPage(ObjectPage):
    """A file's text with the chunk borders of a rule, 12,000 characters at a time."""

    template_name = "admin/rag/chunk_preview.html"
    permission_required = ("rag.view_store", "rag.view_file", "rag.view_chunk")
    title = gettext_lazy("Preview of chunks")

    def get_rows(self, request: HttpRequest) -> QuerySet[Any]:
        return models.Store.objects.readable(scope_for(request))

    @cached_property
    def files(self) -> Any:
        """Return the store's readable files that have been read."""
        files = models.File.objects.readable(scope_for(self.request)).filter(store=self.row)
        return files.filter(revision__gt=0).order_by("-pk")

    @cached_property
    def file(self) -> models.File | None:
        """Return the chosen file, the latest without a choice."""
        chosen = parse_int(self.request.GET.get("file", ""))
        light = self.files.light().select_related("store")
        file: models.File | None = get_object_or_404(light, pk=chosen) if chosen else light.first()
        return file

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the form and what the rule makes of the file."""
        own = self.file.chunk_rule if self.file else self.row.chunk_rule
        first = {"size": own.max_tokens, "overlap": own.overlap_tokens}
        given = {name: self.request.GET.get(name) or value for name, value in first.items()}
        form = ChunkRuleForm(given)
        context: dict[str, Any] = {
            "form": form,
            "store": self.row,
            "file": self.file,
            "own": own,
            "files": self.files.values_list("pk", "name")[:MAX_FILES],
            "may_edit": self._may_edit(),
        }
        if self.file and form.is_valid():
            rule = ChunkRule(form.cleaned_data["size"], form.cleaned_data["overlap"])
            context |= {"rule": rule, "is_own": rule == own, **self._shown(self.file.pk, rule)}
        return super().get_context_data(**{**context, **kwargs})

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        """Save the rule for the store; present files keep their chunks until reindexed."""
        form = ChunkRuleForm(request.POST)
        if not self._may_edit():
            raise PermissionDenied
        if form.is_valid():
            values = {
                "max_tokens_per_chunk": form.cleaned_data["size"],
                "max_overlap_tokens": form.cleaned_data["overlap"],
            }
            try:
                update_store(scope=scope_for(request), store=self.row, values=values)
            except RAGError as error:
                return self.render_error(error)
            messages.success(request, _("The store cuts files by this rule from now on."))
            messages.warning(
                request, _("Files keep their chunks until their store is indexed again.")
            )
        return redirect(reverse("admin:rag_store_change", args=[self.row.pk]))

    def _shown(self, file_id: int, rule: ChunkRule) -> dict[str, Any]:
        try:
            made = preview_chunks(scope=scope_for(self.request), file_id=file_id, rule=rule)
        except RAGError as error:
            return {"error": error_sentence(error)}
        at = min(parse_int(self.request.GET.get("at", "")), max(0, len(made.text) - 1))
        start = at // WINDOW * WINDOW
        end = min(len(made.text), start + WINDOW)
        return {
            "preview": made,
            "change": made.n_chunks - made.n_today,
            "notice": warning_sentence(rule.notice.as_dict()) if rule.notice else "",
            "pieces": split_by_chunks(made.text, (start, end), made.chunks, made.kept),
            "start": start,
            "end": end,
            "largest": max((chunk.token_count for chunk in made.chunks), default=0),
            "before": start - WINDOW if start else None,
            "after": end if end < len(made.text) else None,
        }

    def _may_edit(self) -> bool:
        user: Any = self.request.user
        mine = models.Store.objects.editable(scope_for(self.request)).filter(pk=self.row.pk)
        return user.has_perm("rag.change_store") and mine.exists()
