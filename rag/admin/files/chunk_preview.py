"""Chunk preview: a file split by another template, size or overlap; stored only on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

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
from rag.admin.ui.splitters import (
    installation_choice,
    rechunk_sentence,
    template_choices,
    template_label,
)
from rag.core.documents import Chunk, ChunkRule
from rag.core.errors import RAGError
from rag.services.ingest import ChunkPreview, preview_chunks
from rag.services.reindex import rechunk_store
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
# As many chunks are shown of each rule, side by side.
N_FIRST = 5


class ChunkRuleForm(forms.Form):
    """Template, chunk size and overlap to try."""

    template = forms.ChoiceField(label=gettext_lazy("chunking template"), required=False)
    size = forms.IntegerField(label=gettext_lazy("chunk size"), min_value=50, max_value=500)
    overlap = forms.IntegerField(label=gettext_lazy("overlap"), min_value=0, max_value=100)

    def __init__(self, given: Any, chosen: str) -> None:
        super().__init__(given)
        field = cast(forms.ChoiceField, self.fields["template"])
        field.choices = template_choices(installation_choice(), chosen)

    @property
    def rule(self) -> ChunkRule:
        """Return the rule of valid values."""
        values = self.cleaned_data
        return ChunkRule(values["size"], values["overlap"], values["template"])


@dataclass(frozen=True, slots=True)
class RuleFigures:
    """What a rule makes of a file, for a column: its template, figures and first chunks."""

    title: str
    template: str
    preview: ChunkPreview

    @property
    def lengths(self) -> tuple[int, int, int]:
        """Return the tokens of the shortest chunk, of the middle one and of the longest."""
        counts = sorted(chunk.token_count for chunk in self.preview.chunks) or [0]
        return counts[0], counts[len(counts) // 2], counts[-1]

    @property
    def first(self) -> Sequence[Chunk]:
        """Return the first chunks."""
        return self.preview.chunks[:N_FIRST]


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
        given["template"] = self.request.GET.get("template", own.splitter)
        form = ChunkRuleForm(given, own.splitter)
        context: dict[str, Any] = {
            "form": form,
            "store": self.row,
            "file": self.file,
            "own": own,
            "files": self.files.values_list("pk", "name")[:MAX_FILES],
            "may_edit": self._may_edit(),
        }
        if self.file and form.is_valid():
            context |= {"rule": form.rule, "is_own": form.rule == own}
            context |= self._shown(self.file, form.rule)
        return super().get_context_data(**{**context, **kwargs})

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        """Save the rule for the store; present files keep their chunks until reindexed."""
        before = self.row.splitter
        form = ChunkRuleForm(request.POST, before)
        if not self._may_edit():
            raise PermissionDenied
        if form.is_valid():
            values = {
                "max_tokens_per_chunk": form.cleaned_data["size"],
                "max_overlap_tokens": form.cleaned_data["overlap"],
                "splitter": form.cleaned_data["template"],
            }
            scope = scope_for(request)
            try:
                update_store(scope=scope, store=self.row, values=values)
                is_cut = self.row.splitter != before
                n_files = rechunk_store(scope=scope, store=self.row) if is_cut else 0
            except RAGError as error:
                return self.render_error(error)
            messages.success(request, _("The store cuts files by this rule from now on."))
            if is_cut:
                messages.success(request, rechunk_sentence(n_files))
            else:
                text = _("Files keep their chunks until their store is indexed again.")
                messages.warning(request, text)
        return redirect(reverse("admin:rag_store_change", args=[self.row.pk]))

    def _shown(self, file: models.File, rule: ChunkRule) -> dict[str, Any]:
        scope, own = scope_for(self.request), file.chunk_rule
        try:
            made = preview_chunks(scope=scope, file_id=file.pk, rule=rule)
            now = preview_chunks(scope=scope, file_id=file.pk, rule=own) if rule != own else made
        except RAGError as error:
            return {"error": error_sentence(error)}
        at = min(parse_int(self.request.GET.get("at", "")), max(0, len(made.text) - 1))
        start = at // WINDOW * WINDOW
        end = min(len(made.text), start + WINDOW)
        return {
            "preview": made,
            "change": made.n_chunks - made.n_today,
            "columns": [
                RuleFigures(_("At present"), self._template(own), now),
                *([RuleFigures(_("Chosen"), self._template(rule), made)] if rule != own else []),
            ],
            "notice": warning_sentence(rule.notice.as_dict()) if rule.notice else "",
            "pieces": split_by_chunks(made.text, (start, end), made.chunks, made.kept),
            "start": start,
            "end": end,
            "largest": max((chunk.token_count for chunk in made.chunks), default=0),
            "before": start - WINDOW if start else None,
            "after": end if end < len(made.text) else None,
        }

    def _template(self, rule: ChunkRule) -> str:
        return template_label(rule.splitter) if rule.splitter else installation_choice()

    def _may_edit(self) -> bool:
        user: Any = self.request.user
        mine = models.Store.objects.editable(scope_for(self.request)).filter(pk=self.row.pk)
        return user.has_perm("rag.change_store") and mine.exists()
