"""Error page (``handler500``): 503 or 507 with a sentence where the error map knows the cause.

Reached by what no API's own handlers see: pages, middleware, uploads that are read before a view.
"""

from __future__ import annotations

import sys

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext
from django.views import defaults

from project.middleware import form_of
from rag.api.http.errors import map_error

_KNOWN = (503, 507)


def server_error(request: HttpRequest) -> HttpResponseBase:
    """Return why the site cannot answer now, else Django's page."""
    error = sys.exc_info()[1]
    failure = map_error(request, error) if isinstance(error, Exception) else None
    if failure is None or failure.status not in _KNOWN:
        return defaults.server_error(request)
    if form := form_of(request):
        return form.render(failure)
    sentence = failure.error.localized(gettext)
    return HttpResponse(
        sentence, status=failure.status, content_type="text/plain", headers=failure.headers
    )
