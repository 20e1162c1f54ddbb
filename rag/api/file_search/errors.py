"""Errors of the file search routes: the API's error map as ``{"error": "…"}``, one sentence.

Their clients know these statuses and, for some failures, these very sentences.
"""

from __future__ import annotations

from django.http import JsonResponse
from django.utils.translation import gettext_noop

from rag.api.http.errors import HttpFailure, json_response, localize

# The names of their addresses: what has one of these is rendered in this form.
ROUTES = frozenset(
    f"file-search-{name}" for name in ("store", "upload", "search", "stream", "node", "run")
)
EMPTY_QUERY = gettext_noop("查询内容不能为空")
NO_MODE = gettext_noop("无效的搜索模式")
NO_STORE = gettext_noop("未指定 FileSearchStore")
NO_FILE = gettext_noop("未提供文件")
TOO_LARGE = gettext_noop("文件大小超过 {limit}MB")
# What is none of these is a 500 for them.
_STATUS = {413: 400, 415: 400, 422: 400} | {n: n for n in (400, 401, 403, 404, 405, 409, 429, 503)}
_SENTENCES = {
    "unauthenticated": "Unauthorized",
    "GEMINI_API_KEY": "Gemini API Key 未配置",
}


def render_sentence(failure: HttpFailure) -> JsonResponse:
    """Return ``{"error": "…"}`` with the status that these clients expect."""
    status, sentence = to_sentence(failure)
    return json_response({"error": sentence}, status, failure.headers)


def to_sentence(failure: HttpFailure) -> tuple[int, str]:
    """Return status and sentence of a failure, in the language of the request."""
    status, params = _STATUS.get(failure.status, 500), failure.error.params
    code = failure.code
    if code == "configuration" and "name" not in params:
        code = str(params.get("setting"))
    if code in _SENTENCES:
        return status, _SENTENCES[code]
    if failure.fields is not None:
        return status, " ".join(text for texts in failure.fields.values() for text in texts)
    said = localize(failure.error)
    hint = "" if code == "malformed" else said["hint"]
    return status, f"{said['message']} {hint}".strip()
