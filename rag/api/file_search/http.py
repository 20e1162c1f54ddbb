"""Decorator and responses of the file search routes: authentication, permissions, errors.

Every error is ``{"error": "…"}``, as the client of these routes knows it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import SuspiciousOperation, ValidationError
from django.http import HttpRequest, JsonResponse, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from django.http.response import HttpResponseBase
from django.utils.translation import gettext
from django.views.decorators.csrf import csrf_exempt

from rag.api.http.authentication import authenticate_by_key, authenticate_by_session, require_right
from rag.api.http.bodies import read_json
from rag.api.http.database_errors import translate_database_error
from rag.api.http.errors import localize
from rag.core import errors
from rag.core.errors import ForbiddenError, InvalidInputError, LimitError, RAGError
from rag.services.access import Caller

_log = logging.getLogger(__name__)
UNAUTHORIZED, NO_KEY = "Unauthorized", "Gemini API Key 未配置"
# Files may come within addresses; larger ones come by http.
MAX_JSON = 32 * 1024**2
_STATUS: tuple[tuple[type[RAGError], int], ...] = (
    (errors.NotFoundError, 404),
    (ForbiddenError, 403),
    (errors.ConflictError, 409),
    (InvalidInputError, 400),
    (LimitError, 400),
    (errors.DocumentError, 400),
)
View = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


def node_view(methods: Sequence[str], right: str, permission: str = "") -> Callable[[View], View]:
    """Return a decorator: the view gets the request, its Caller and what stands in the address.

    ``right`` is what a key must have, ``permission`` what its user must, as in the admin.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        async def guarded(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
            if request.method not in methods:
                answer = _refusal(
                    405,
                    gettext("The method {method} is not possible here.").format(
                        method=request.method
                    ),
                )
                answer["Allow"] = ", ".join(methods)
                return answer
            try:
                caller = await sync_to_async(_caller)(request, right, permission)
                if caller is None:
                    return _refusal(401, UNAUTHORIZED)
                return await view(request, caller, **kwargs)
            except Exception as error:
                return error_json(error)

        return csrf_exempt(guarded)

    return decorate


def error_json(error: Exception) -> JsonResponse:
    """Return the answer that tells an error; one that is a fault of ours goes to the log."""
    status, sentence = localize_node_error(error)
    answer = _refusal(status, sentence)
    wait_s = getattr(error, "params", {}).get("retry_after_s")
    if isinstance(error, LimitError) and wait_s is not None:
        answer.status_code = 429
        answer["Retry-After"] = str(wait_s)
    return answer


def localize_node_error(error: Exception) -> tuple[int, str]:
    """Return status and sentence of an error, in the language of the request."""
    if isinstance(error, RAGError):
        is_key = error.params.get("setting") == "GEMINI_API_KEY" and "name" not in error.params
        if isinstance(error, errors.ConfigurationError) and is_key:
            return 500, NO_KEY
        said = localize(error)
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        return status, f"{said['message']} {said['hint']}".strip()
    if isinstance(error, ValidationError):
        return 400, " ".join(error.messages)
    if isinstance(error, (MultiPartParserError, SuspiciousOperation, UnreadablePostError)):
        return 400, gettext("The request cannot be read.")
    met = translate_database_error(error)
    if met is not None:
        return localize_node_error(met)
    _log.error("A node's route failed: %s", type(error).__name__, exc_info=error)
    return 500, gettext("Something went wrong here.") + " " + gettext("The server's log says what.")


def _refusal(status: int, sentence: str) -> JsonResponse:
    """Return an error with this sentence."""
    answer = json_response({"error": sentence}, status)
    if status == 401:
        answer["WWW-Authenticate"] = "Bearer"
    return answer


def json_response(body: Any, status: int = 200) -> JsonResponse:
    """Return JSON with letters as they are."""
    return JsonResponse(body, status=status, json_dumps_params={"ensure_ascii": False})


def json_body(request: HttpRequest, limit: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE) -> Any:
    """Return the JSON object of the body; raise InvalidInputError for everything else."""
    if request.content_type != "application/json":
        raise InvalidInputError(
            "The request's type of content is not accepted here.", hint="Send application/json."
        )
    body = read_json(request.read(limit + 1), limit)
    if not isinstance(body, dict):
        raise InvalidInputError("The request is no JSON object.")
    return body


def _caller(request: HttpRequest, right: str, permission: str) -> Caller | None:
    caller = authenticate_by_key(request) or authenticate_by_session(request)
    if caller is None:
        return None
    require_right(caller, right)
    if permission and not caller.user.has_perm(f"rag.{permission}"):
        raise ForbiddenError(
            "Your account lacks the permission {permission}.",
            hint="Ask an administrator for it.",
            permission=permission,
        )
    return caller
