"""File status as an HTML cell: state, progress or error."""

from __future__ import annotations

from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from rag import models
from rag.admin.ui.cells import join_cells, label
from rag.admin.ui.messages import error_sentence
from rag.services.files import QueuePlace

STATUS_COLOURS = {
    models.File.Status.IDLE: "idle",
    models.File.Status.UPLOADING: "busy",
    models.File.Status.PROCESSING: "busy",
    models.File.Status.COMPLETED: "good",
    models.File.Status.ERROR: "bad",
}


def status_cell(file: models.File) -> SafeString:
    """Return a file's status with its progress or its error; the page's script renews it."""
    parts = [label(file.get_status_display(), STATUS_COLOURS[models.File.Status(file.status)])]
    if is_busy(file):
        percent = round(100 * float(file.progress.get("share") or 0))
        parts.append(
            format_html(
                '<progress class="desk-progress" max="100" value="{}"></progress>'
                '<span class="desk-note">{}</span>',
                percent,
                progress_sentence(file.progress, getattr(file, "queue_place", None)),
            )
        )
    elif file.error:
        parts.append(format_html('<span class="desk-error">{}</span>', error_sentence(file.error)))
    return format_html(
        '<span class="desk-status" data-file="{}" data-busy="{}">{}</span>',
        file.pk,
        int(is_busy(file)),
        join_cells(parts),
    )


def is_busy(file: models.File) -> bool:
    """Return whether the file's status will change by itself."""
    return file.status in (models.File.Status.UPLOADING, models.File.Status.PROCESSING)


def progress_sentence(progress: dict[str, Any], place: QueuePlace | None = None) -> str:
    """Return where a running file is: its stage, share and chunks, or who goes before it."""
    stages = {
        "waiting": _("waiting for its turn"),
        "parsing": _("reading"),
        "recognizing": _("text recognition"),
        "embedding": _("indexing"),
        "sending": _("being sent to Gemini"),
    }
    stage = str(progress.get("stage", ""))
    parts = [stages.get(stage, stage)]
    if place is not None and place.n_before:
        minutes = max(1, round(place.seconds / 60))
        text = ngettext(
            "%(n)d file before it, about %(minutes)d min",
            "%(n)d files before it, about %(minutes)d min",
            place.n_before,
        )
        parts.append(text % {"n": place.n_before, "minutes": minutes})
    if progress.get("share"):
        parts.append(f"{100 * float(progress['share']):.0f} %")
    if progress.get("pages"):
        parts.append(_("page %(page)d of %(pages)d") % progress)
    if progress.get("chunks"):
        parts.append(_("%(n)d chunks") % {"n": progress["chunks"]})
    return ", ".join(part for part in parts if part)
