"""The file search routes word the API's failures as one sentence, some of them fixed."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import SuspiciousOperation, ValidationError
from django.http import HttpRequest

from rag.api.file_search.errors import render_sentence, to_sentence
from rag.api.http.errors import map_error, map_status
from rag.core import errors


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (errors.NotFoundError("Gone."), 404, "Gone."),
        (errors.ForbiddenError("No.", hint="Ask."), 403, "No. Ask."),
        (errors.ConflictError("Taken."), 409, "Taken."),
        (errors.LimitError("{n} is too much.", n=3), 400, "3 is too much."),
        (errors.LimitError("Wait.", retry_after_s=7), 429, "Wait."),
        (errors.DocumentError("Empty."), 400, "Empty."),
        (errors.ProviderError("Away."), 500, "Away."),
        (errors.ProviderTimeoutError("Late."), 500, "Late."),
        (errors.CancelledError("Left."), 500, "Left."),
        (
            errors.ConfigurationError("Unset.", setting="GEMINI_API_KEY"),
            500,
            "Gemini API Key 未配置",
        ),
        (errors.ConfigurationError("Unset.", setting="RAG_X"), 500, "Unset."),
        (errors.ConfigurationError("X.", setting="GEMINI_API_KEY", name="a"), 500, "X."),
        (ValidationError(["One.", "Two."]), 400, "One. Two."),
        (SuspiciousOperation("x"), 400, "The request cannot be read."),
    ],
)
def test_errors_have_the_status_and_sentence_that_clients_know(
    error: Exception, status: int, sentence: str
) -> None:
    failure = map_error(HttpRequest(), error)
    assert failure is not None
    assert to_sentence(failure) == (status, sentence)


def test_a_refused_key_is_unauthorized_whatever_the_reason() -> None:
    request: Any = HttpRequest()
    request.rag_refusal = errors.ForbiddenError("The key has expired.")
    answer = render_sentence(map_status(request, 401))
    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, "Bearer")
    assert answer.content == b'{"error": "Unauthorized"}'
    assert render_sentence(map_status(request, 503)).status_code == 503
