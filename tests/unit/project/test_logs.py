"""Logs: JSON with ids, secrets blotted out, and the forms that there are."""

from __future__ import annotations

import io
import json
import logging
from logging.config import dictConfig
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from project.logs import JsonFormatter, PlainFormatter, SecretFilter, logging_config
from rag.core.request_context import RequestContext, set_request, use_account

KEY = "ck_0123abcd_AbCdEf-gh_ijklmnop"


def written(form: type[logging.Formatter], *message: Any, error: Exception | None = None) -> str:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    secrets = ("sk-very-secret", "short")
    handler.setFormatter(form(secrets))  # type: ignore[arg-type]
    handler.addFilter(SecretFilter(secrets))
    logger = logging.Logger("test.logs")
    logger.addHandler(handler)
    info = (type(error), error, error.__traceback__) if error else None
    logger.error(*message, exc_info=info, extra={"facts": {"route": "/x", "status": 200}})
    return out.getvalue()


def test_a_line_is_json_with_the_ids_of_request_and_run() -> None:
    import contextvars

    def work() -> str:
        set_request(RequestContext("api", id="req-1234", user_id=5))
        with use_account(run="run-9", agent="desk"):
            return written(JsonFormatter, "asked %s", "文档")

    line = json.loads(contextvars.copy_context().run(work))
    assert line["message"] == "asked 文档" and line["level"] == "ERROR"
    assert (line["request"], line["run"], line["agent"]) == ("req-1234", "run-9", "desk")
    assert (line["route"], line["status"], line["logger"]) == ("/x", 200, "test.logs")
    assert "key" not in line and line["time"].endswith("+00:00")


@pytest.mark.parametrize("form", [JsonFormatter, PlainFormatter])
@pytest.mark.parametrize(
    "secret", ["sk-very-secret", KEY, "Bearer abcdefghijklmnop.qrst", "token AAAAAAAAAAAAAAAA"]
)
def test_secrets_are_blotted_out_of_messages_and_tracebacks(form: Any, secret: str) -> None:
    try:
        raise ValueError(f"refused {secret}")
    except ValueError as error:
        told = written(form, "calling with %s failed", secret, error=error)
    assert secret not in told and told.count("***") == 2
    assert "ValueError" in told


def test_a_short_secret_hides_no_ordinary_words() -> None:
    assert "a short word" in written(PlainFormatter, "a short word")


@given(st.text())
def test_any_message_is_one_line_of_json(text: str) -> None:
    told = written(JsonFormatter, "%s", text)
    assert told.count("\n") == 1 and isinstance(json.loads(told)["message"], str)


@pytest.mark.parametrize(("form", "access"), [("json", "INFO"), ("plain", "WARNING")])
def test_the_config_is_one_that_logging_takes(form: str, access: str) -> None:
    config = logging_config("INFO", form, {"django": "s" * 20, "more": {"crm": "t" * 20}})
    assert config["loggers"]["rag.access"]["level"] == access
    assert set(config["filters"]["discretion"]["secrets"]) == {"s" * 20, "t" * 20}
    before = logging.getLogger().handlers[:], logging.getLogger().level
    try:
        dictConfig(config)
    finally:
        logging.getLogger().handlers, logging.getLogger().level = before
    assert {config["loggers"][name]["level"] for name in ("httpx2", "openai")} == {"WARNING"}


@pytest.mark.parametrize(
    ("message", "seen"),
    [
        (("%d files of %s", 3), "%d files of %s [TypeError"),
        (("%d", "three"), "%d [TypeError"),
        (("%(name)s", {"other": 1}), "%(name)s [KeyError"),
    ],
)
@pytest.mark.parametrize("form", [JsonFormatter, PlainFormatter])
def test_a_line_whose_arguments_do_not_fit_fails_nobody(form: Any, message: Any, seen: str) -> None:
    assert seen in written(form, *message)
