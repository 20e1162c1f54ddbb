"""Error map: any exception to an HTTP failure (status, code, sentence, fields), and its JSON form.

The one map of all APIs. ``/v1/`` and the file search routes render the same failures otherwise.
Fields that pydantic or DRF refused are dotted names with sentences.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.core.exceptions import (
    DisallowedHost,
    ObjectDoesNotExist,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
    ValidationError,
)
from django.db import DatabaseError, DataError, IntegrityError
from django.http import Http404, HttpRequest, JsonResponse, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from django.http.response import HttpResponseBase
from django.utils.translation import gettext, gettext_noop
from ninja import NinjaAPI
from ninja.errors import HttpError
from ninja.errors import ValidationError as BodyError
from rest_framework import exceptions

from rag.core import errors
from rag.core.disk_full import is_disk_full
from rag.core.errors import RAGError
from rag.services.outages import DATABASE_AWAY, outage_of

_STATUS_OF_CLASS: dict[type[RAGError], int] = {
    errors.InvalidInputError: 400,
    errors.NotFoundError: 404,
    errors.ForbiddenError: 403,
    errors.ConflictError: 409,
    errors.LimitError: 413,
    errors.DocumentError: 422,
    errors.ConfigurationError: 500,
    errors.ProviderTimeoutError: 504,
    errors.ProviderError: 502,
    errors.CancelledError: 499,
    RAGError: 500,
}
_OF_STATUS: dict[int, tuple[str, RAGError]] = {
    400: ("malformed", RAGError("The request cannot be read.", hint="Send valid JSON in UTF-8.")),
    401: (
        "unauthenticated",
        RAGError(
            "The request comes without a key.", hint="Send “Authorization: Bearer KEY”, or sign in."
        ),
    ),
    403: ("forbidden", RAGError("You may not do this.")),
    404: ("not_found", RAGError("There is nothing at this address, or nothing you may see.")),
    405: ("method_not_allowed", RAGError("The method {method} is not possible here.")),
    406: ("not_acceptable", RAGError("There is no such form of the answer.", hint="Ask for JSON.")),
    408: ("timeout", RAGError("The request did not arrive in time.", hint="Send it again.")),
    413: ("too_large", RAGError("The request is too large.")),
    415: (
        "unsupported_media_type",
        RAGError(
            "The request's type of content is not accepted here.",
            hint="Send application/json; files come as multipart/form-data.",
        ),
    ),
    416: (
        "range_not_satisfiable",
        RAGError("The file has none of the bytes asked for.", hint="Ask without Range."),
    ),
    429: ("rate_limited", RAGError("Too many requests came within a minute.")),
    500: ("internal", RAGError("Something went wrong here.", hint="The server's log says what.")),
    503: (DATABASE_AWAY.code, DATABASE_AWAY),
    507: (
        "disk_full",
        RAGError(
            "The server's disk is full; nothing was stored.", hint="Make room there, and try again."
        ),
    ),
}
_log = logging.getLogger(__name__)
_PARSED = (RAGError, exceptions.APIException)
_UNREADABLE = (SuspiciousOperation, MultiPartParserError, UnreadablePostError)


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """A refused or failed request, before it is rendered; ``fields`` are the wrong ones."""

    status: int
    code: str
    error: RAGError
    fields: Mapping[str, list[str]] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return code, message, hint, params and fields in the current language."""
        body = {"code": self.code, **localize(self.error)}
        return body if self.fields is None else {**body, "fields": self.fields}

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that say what to do about it."""
        if self.status == 401:
            return {"WWW-Authenticate": "Bearer"}
        wait_s = self.error.params.get("retry_after_s") if self.status == 429 else None
        wait_s = DATABASE_AWAY.params["retry_after_s"] if self.status == 503 else wait_s
        return {} if wait_s is None else {"Retry-After": str(wait_s)}


Renderer = Callable[[HttpFailure], JsonResponse]


def map_error(request: HttpRequest, error: Exception) -> HttpFailure | None:
    """Return what an exception of any layer means to whoever asked; None for a fault of ours."""
    if outage_of(error) is not None:
        # A server that does not start may name folders and quote its log.
        _log.error("%s %s: %s", DATABASE_AWAY.message, type(error).__name__, error)
        return map_status(request, 503)
    if isinstance(error, RAGError):
        return _of_error(error)
    if isinstance(error, HttpError) and isinstance(error.__cause__, _PARSED):
        # Ninja wraps what its parser raises.
        return map_error(request, error.__cause__)
    if isinstance(error, DisallowedHost):
        # The first thing that people meet behind a proxy or from a container.
        named = RAGError(
            "The host “{host}” is none of this site's.",
            hint="Add it to ALLOWED_HOSTS, or let the proxy in front keep Host.",
            host=request.META.get("HTTP_HOST", "")[:255],
        )
        return HttpFailure(400, "unknown_host", named)
    fields = _fields(error)
    if fields is not None:
        wrong = RAGError("Some values cannot be taken.", hint="See the fields.")
        code = 422 if isinstance(error, BodyError) else 400
        return HttpFailure(code, "invalid_input", wrong, fields)
    status = _status(error)
    if status == 507:
        _log.error("%s: %s", _OF_STATUS[status][1].message, error)
    if status is not None:
        return map_status(request, status)
    met = translate_database_error(error)
    return None if met is None else _of_error(met)


def map_status(request: HttpRequest, status: int) -> HttpFailure:
    """Return what a bare status means, such as 404 for an address that is none."""
    refusal = getattr(request, "rag_refusal", None)
    if status == 401 and isinstance(refusal, RAGError):
        return HttpFailure(401, "unauthenticated", refusal)
    code, known = _OF_STATUS.get(status) or _OF_STATUS[400 if status < 500 else 500]
    method = {"method": request.method or ""} if status == 405 else {}
    return HttpFailure(status, code, RAGError(known.message, hint=known.hint, **method))


def render_json(failure: HttpFailure) -> JsonResponse:
    """Return ``{"error": {"code", "message", "hint", "params", "fields"?}}``."""
    return json_response({"error": failure.as_dict()}, failure.status, failure.headers)


def json_response(
    body: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> JsonResponse:
    """Return JSON with letters as they are."""
    dumps = {"ensure_ascii": False}
    return JsonResponse(body, status=status, headers=headers, json_dumps_params=dumps)


def drf_exception_handler(error: Exception, context: Mapping[str, Any]) -> JsonResponse | None:
    """Return DRF's answer to an error; None lets Django answer 500."""
    request = context["request"]
    failure = map_error(getattr(request, "_request", request), error)
    if failure is None:
        return None
    answer = render_json(failure)
    if isinstance(error, exceptions.MethodNotAllowed):
        answer["Allow"] = ", ".join(context["view"].allowed_methods)
    return answer


def install_error_map(
    api: NinjaAPI, render: Callable[[HttpRequest, HttpFailure], HttpResponseBase]
) -> None:
    """Let an API of ninja's render its errors; those that are faults of ours go on to Django."""

    def answer(request: HttpRequest, error: Any) -> Any:
        failure = map_error(request, error)
        if failure is None:
            # Django logs it and the envelope answers 500.
            raise error
        return render(request, failure)

    for known in (Exception, *api._exception_handlers):
        api.add_exception_handler(known, answer)


def localize(error: RAGError) -> dict[str, Any]:
    """Return message and hint of an error, raised or stored, in the current language."""
    params = {name: str(value) for name, value in error.params.items()}
    if "kind" in params:
        # The kind of an unknown name is a word of ours.
        params["kind"] = gettext(params["kind"])

    def say(template: str) -> str:
        return gettext(template).format(**params) if template else ""

    return {"message": say(error.message), "hint": say(error.hint), "params": params}


def _of_error(error: RAGError) -> HttpFailure:
    if error.code == "rate_limited":
        return HttpFailure(429, error.code, error)
    if is_disk_full(error):
        _log.error("A disk is full: %s", error.__cause__)
        return HttpFailure(507, "disk_full", error)
    status = next(_STATUS_OF_CLASS[cls] for cls in type(error).__mro__ if cls in _STATUS_OF_CLASS)
    return HttpFailure(status, error.code, error)


def _fields(error: Exception) -> dict[str, list[str]] | None:
    if isinstance(error, BodyError):
        return pydantic_fields(error.errors)
    if isinstance(error, exceptions.ValidationError):
        return flat_fields(error.detail)
    if isinstance(error, ValidationError):
        named = error.message_dict if hasattr(error, "error_dict") else {"": error.messages}
        return flat_fields(named)
    return None


def _status(error: Exception) -> int | None:
    if isinstance(error, (HttpError, exceptions.APIException)):
        return int(error.status_code)
    if is_disk_full(error):
        return 507
    if isinstance(error, Http404):
        return 404
    if isinstance(error, PermissionDenied):
        return 403
    if isinstance(error, RequestDataTooBig):
        return 413
    return 400 if isinstance(error, _UNREADABLE) else None


def translate_database_error(error: Exception) -> RAGError | None:
    """Return what an error of Django's database layer means to whoever asked; it is logged."""
    fault: RAGError | None = None
    if isinstance(error, DataError):
        fault = errors.InvalidInputError(
            "The request holds a value that cannot be stored.",
            hint="Look for control characters, and for numbers and dates that are out of range.",
        )
    elif isinstance(error, (IntegrityError, ObjectDoesNotExist)) or type(error) is DatabaseError:
        # Django raises the bare class for a row that was deleted before it could be saved.
        fault = errors.ConflictError(
            "Somebody else changed or deleted this at the same moment.",
            hint="Look at it again, and repeat what is still wanted.",
        )
    if fault is not None:
        _log.warning("A request met the database: %s", type(error).__name__, exc_info=error)
    return fault


# Pydantic speaks English only; what we do not translate comes as it says it.
_SENTENCES = {
    "missing": gettext_noop("This is needed."),
    "extra_forbidden": gettext_noop("There is no such field."),
    "string_type": gettext_noop("This must be a text."),
    "int_type": gettext_noop("This must be a whole number."),
    "int_parsing": gettext_noop("This must be a whole number."),
    "int_from_float": gettext_noop("This must be a whole number."),
    "float_type": gettext_noop("This must be a number."),
    "float_parsing": gettext_noop("This must be a number."),
    "finite_number": gettext_noop("This must be a number."),
    "bool_type": gettext_noop("This must be true or false."),
    "bool_parsing": gettext_noop("This must be true or false."),
    "list_type": gettext_noop("This must be a list."),
    "text_or_parts": gettext_noop("This must be a text or a list of parts."),
    "short_texts": gettext_noop("This must be a text or texts, each of 1 to 200 characters."),
    "dict_type": gettext_noop("This must be an object."),
    "model_type": gettext_noop("This must be an object."),
    "model_attributes_type": gettext_noop("This must be an object."),
    "literal_error": gettext_noop("Allowed: {expected}."),
    "greater_than_equal": gettext_noop("This must be {ge} or more."),
    "less_than_equal": gettext_noop("This must be {le} or less."),
    "string_too_short": gettext_noop("At least {min_length} characters are needed."),
    "string_too_long": gettext_noop("At most {max_length} characters are allowed."),
    "too_short": gettext_noop("At least {min_length} are needed."),
    "too_long": gettext_noop("At most {max_length} are allowed."),
}
# A request with thousands of wrong fields is wrong in the same way; all would be megabytes.
MAX_FIELDS = 100


def pydantic_fields(errors: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return ninja's errors as sentences by field or parameter; ``""`` is the body as a whole.

    The first ``MAX_FIELDS`` are told.
    """
    found: dict[str, list[str]] = {}
    for error in islice(errors, MAX_FIELDS):
        # The location begins with where the value came from and the argument's name.
        where, argument, *inside = (str(part) for part in error["loc"])
        name = ".".join(inside) or ("" if where == "body" else argument)
        template = _SENTENCES.get(error["type"])
        if template is None:
            sentence = str(error["msg"])
        else:
            sentence = gettext(template).format(**error.get("ctx", {}))
        found.setdefault(name, []).append(sentence)
    return found


def flat_fields(detail: Any, prefix: str = "") -> dict[str, list[str]]:
    """Return DRF's nested details flat: ``{"metadata.a": ["…"]}``; ``MAX_FIELDS`` of each level."""
    if isinstance(detail, Mapping):
        found: dict[str, list[str]] = {}
        for name, inner in islice(detail.items(), MAX_FIELDS):
            own = "" if name in ("non_field_errors", "__all__") else str(name)
            dotted = f"{prefix}.{own}".strip(".")
            for field, sentences in flat_fields(inner, dotted).items():
                found.setdefault(field, []).extend(sentences)
        return found
    if isinstance(detail, (list, tuple)):
        flat: dict[str, list[str]] = {}
        # Of a list's parts the right ones are empty.
        wrong = ((index, inner) for index, inner in enumerate(detail) if inner not in ({}, [], ()))
        for index, inner in islice(wrong, MAX_FIELDS):
            is_nested = isinstance(inner, (Mapping, list, tuple))
            place = f"{prefix}.{index}".strip(".") if is_nested else prefix
            for field, sentences in flat_fields(inner, place).items():
                flat.setdefault(field, []).extend(sentences)
        return flat
    return {prefix: [str(detail)]}
