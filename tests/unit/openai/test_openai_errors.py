"""Errors and parameters as OpenAI's clients know them."""

from __future__ import annotations

from typing import Any

import pytest

from agents.api.openai.errors import openai_error, retry_headers
from agents.api.openai.parameters import check_parameters
from rag.core.errors import InvalidInputError


def told(status: int, code: str, **more: Any) -> tuple[int, dict[str, Any]]:
    status, body = openai_error(status, {"code": code, "message": "No.", "hint": "", **more})
    return status, body["error"]


@pytest.mark.parametrize(
    ("status", "code", "kind", "word"),
    [
        (401, "unauthenticated", "invalid_request_error", "invalid_api_key"),
        (403, "forbidden", "permission_error", "forbidden"),
        (404, "not_found", "invalid_request_error", "not_found"),
        (413, "too_large", "invalid_request_error", "request_too_large"),
        (429, "rate_limited", "requests", "rate_limit_exceeded"),
        (502, "provider", "server_error", "upstream_error"),
        (504, "provider_timeout", "server_error", "upstream_timeout"),
    ],
)
def test_each_error_has_its_type_and_code(status: int, code: str, kind: str, word: str) -> None:
    assert told(status, code) == (
        status,
        {"message": "No.", "type": kind, "param": None, "code": word},
    )


def test_fields_become_a_sentence_and_the_first_is_the_param() -> None:
    status, error = told(422, "invalid_input", fields={"messages.0.role": ["Bad."], "n": ["No."]})
    assert (status, error["param"]) == (400, "messages.0.role")
    assert error["message"] == "messages.0.role: Bad. n: No."


def test_a_model_that_is_none_is_named() -> None:
    error = told(404, "not_found", params={"model": "x"}, hint="Look.")[1]
    assert (error["code"], error["param"], error["message"]) == (
        "model_not_found",
        "model",
        "No. Look.",
    )
    refused = told(400, "invalid_input", params={"param": "n", "code": "unsupported_parameter"})[1]
    assert (refused["param"], refused["code"]) == ("n", "unsupported_parameter")


def test_a_used_up_budget_is_no_matter_of_waiting_a_minute() -> None:
    params = {"resets_at": "2026-12-01T00:00", "retry_after_s": "9999"}
    status, error = told(429, "rate_limited", params=params)
    assert (status, error["type"], error["code"]) == (
        429,
        "insufficient_quota",
        "insufficient_quota",
    )
    assert retry_headers(429, "insufficient_quota") == {"x-should-retry": "false"}


def test_only_too_many_a_minute_are_tried_again() -> None:
    assert [bool(retry_headers(status)) for status in (400, 409, 429, 500, 504)] == [
        False,
        True,
        False,
        True,
        True,
    ]


def test_tuning_is_named_and_neutral_values_pass() -> None:
    given = {
        "top_p": 0.9,
        "seed": 1,
        "user": None,
        "n": 1,
        "tools": [],
        "logprobs": False,
        "response_format": {"type": "text"},
        "top_k": 5,
        "modalities": ["text"],
    }
    assert check_parameters(given) == ["seed", "top_k", "top_p"]
    idle = {"tools": [{"type": "function"}], "tool_choice": "none"}
    assert check_parameters(idle) == ["tool_choice"]


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("n", 2, "unsupported_parameter"),
        ("tools", [{"type": "function"}], "unsupported_parameter"),
        ("logprobs", True, "unsupported_parameter"),
        ("response_format", {"type": "json_object"}, "unsupported_parameter"),
        ("prediction", {"type": "content"}, "unsupported_parameter"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(name: str, value: Any, code: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        check_parameters({name: value})
    assert error.value.params == {"param": name, "code": code}
    assert name in str(error.value)


def test_what_clients_send_unasked_is_ignored_by_name() -> None:
    given = {"options": {}, "chat_id": "x", "min_tokens": 1, "seed": None, "temprature": 0.1}
    assert check_parameters(given) == ["chat_id", "min_tokens", "options", "temprature"]
