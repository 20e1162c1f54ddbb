"""The page for faults of ours. In: what was raised. Out: 507 with words when a disk is full."""

from __future__ import annotations

import sys

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.views import defaults

from rag.core.disk import is_full
from rag.core.errors import RAGError


def server_error(request: HttpRequest) -> HttpResponse:
    """Return Django's page, or why nothing could be stored; Django calls it as ``handler500``.

    Uploads are read before any view is asked, so no view can tell of it.
    """
    error = sys.exc_info()[1]
    if not is_full(error):
        return defaults.server_error(request)
    told = (
        error
        if isinstance(error, RAGError)
        else RAGError(
            "The server's disk is full; nothing was stored.", hint="Make room there, and try again."
        )
    )
    return HttpResponse(told.localized(gettext), status=507, content_type="text/plain")
