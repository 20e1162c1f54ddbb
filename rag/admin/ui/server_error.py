"""Error page (``handler500``): 507 with a sentence when a disk is full, Django's own otherwise."""

from __future__ import annotations

import sys

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.views import defaults

from rag.core.disk_full import is_disk_full
from rag.core.errors import RAGError


def server_error(request: HttpRequest) -> HttpResponse:
    """Return Django's page, or why nothing could be stored; Django calls it as ``handler500``.

    Uploads are read before any view is asked, so no view can tell of it.
    """
    error = sys.exc_info()[1]
    if not is_disk_full(error):
        return defaults.server_error(request)
    shown = (
        error
        if isinstance(error, RAGError)
        else RAGError(
            "The server's disk is full; nothing was stored.", hint="Make room there, and try again."
        )
    )
    return HttpResponse(shown.localized(gettext), status=507, content_type="text/plain")
