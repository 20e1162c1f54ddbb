"""Notice page of sign-in: one sentence and the way back, for refusals that no form can show."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def notice_response(request: HttpRequest, sentence: object, status: int) -> HttpResponse:
    """Return the page with a translated sentence."""
    return render(request, "accounts/notice.html", {"sentence": sentence}, status=status)
