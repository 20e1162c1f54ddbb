"""Sentences for failures: what is wrong, what to do, and never the key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import ConfigurationError, ProviderError, ProviderTimeoutError
from rag.providers.remote.service import (
    MAX_REASON_CHARS,
    RemoteService,
    check_address,
    check_answer,
    check_key,
)

KEY = "sk-very-secret-0123456789"
SERVICE = RemoteService(
    "llm.example:8000", "qwen3", "RAG_OPENAI_API_KEY", "RAG_OPENAI_BASE_URL", KEY
)


@pytest.mark.parametrize(
    ("status", "is_transient", "words"),
    [
        (301, False, "Set RAG_OPENAI_BASE_URL to the final address."),
        (400, False, "Check the model qwen3 and its options."),
        (401, False, "Check RAG_OPENAI_API_KEY."),
        (403, False, "Check RAG_OPENAI_API_KEY."),
        (404, False, "Check the model's name and RAG_OPENAI_BASE_URL."),
        (408, True, "refused the request (HTTP 408)"),
        (409, False, "refused the request (HTTP 409)"),
        (413, False, "refused the request (HTTP 413)"),
        (429, True, "is busy, or the quota is used up (HTTP 429)"),
        (500, True, "failed (HTTP 500)"),
        (503, True, "Try again later."),
    ],
)
def test_a_status_says_what_to_do(status: int, is_transient: bool, words: str) -> None:
    failure = SERVICE.refused(status, "because", None)
    assert failure.is_transient is is_transient
    assert words in str(failure.error)
    assert "llm.example:8000" in str(failure.error)
    assert type(failure.error) is ProviderError


def test_the_server_s_own_words_are_in_the_log_and_in_nothing_that_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = f"model at http://10.0.0.7/v1 with {KEY} said {{0}} {{x}} %s"
    for failure in (
        *(SERVICE.refused(status, said) for status in (301, 400, 401, 404, 429, 503)),
        SERVICE.unreachable(said),
        SERVICE.unreadable(said),
    ):
        error = failure.error
        assert "10.0.0.7" not in f"{error} {error.as_dict()}"
        assert error.detail == said.replace(KEY, "***")
        assert error.detail in caplog.messages[-1] and "llm.example:8000" in caplog.messages[-1]
    assert KEY not in caplog.text


def test_a_timeout_is_an_error_of_its_own() -> None:
    failure = SERVICE.timed_out(0.25)
    assert type(failure.error) is ProviderTimeoutError
    assert failure.is_transient
    assert str(failure.error) == (
        "llm.example:8000 did not answer within 0.25 s (model qwen3). "
        "Try again, or raise RAG_TIMEOUT_S."
    )


@given(st.text(max_size=80), st.text(max_size=80), st.sampled_from([400, 401, 404, 429, 500]))
def test_no_sentence_holds_the_key(before: str, after: str, status: int) -> None:
    quoted = f"{before}{KEY}{after}"
    for failure in (
        SERVICE.refused(status, quoted),
        SERVICE.unreachable(quoted),
        SERVICE.unreadable(quoted),
    ):
        assert KEY not in str(failure.error)
        assert KEY not in repr(failure)
        assert KEY not in str(failure.error.as_dict())
    assert KEY not in repr(SERVICE)


def test_words_of_a_server_are_shortened_to_a_line() -> None:
    assert SERVICE.clean("a\n  b\tc") == "a b c"
    assert len(SERVICE.clean("x" * 5000)) == MAX_REASON_CHARS
    assert SERVICE.clean("") == SERVICE.clean(None) == "no reason given"
    assert SERVICE.clean("  <html><h1>502</h1></html>") == "a web page"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://127.0.0.1:11434/v1", "127.0.0.1:11434"),
        ("https://ark.cn-beijing.volces.com/api/v3", "ark.cn-beijing.volces.com"),
        ("https://user:secret@proxy.example/v1", "proxy.example"),
    ],
)
def test_an_address_is_named_by_its_host(url: str, name: str) -> None:
    assert check_address(url, "RAG_OPENAI_BASE_URL") == name


@pytest.mark.parametrize(
    "url", ["localhost:11434", "ftp://x", "http://", "//x/v1", "http://[::1", "http://x:port/"]
)
def test_what_is_no_address_names_its_setting(url: str) -> None:
    with pytest.raises(ConfigurationError, match="RAG_OPENAI_BASE_URL is no web address"):
        check_address(url, "RAG_OPENAI_BASE_URL")


def test_a_key_loses_the_blanks_around_it() -> None:
    assert check_key("  sk-1\n", "GEMINI_API_KEY") == "sk-1"


@pytest.mark.parametrize("key", ["sk 1", "密钥", "sk-\x7f", "sk-1\nsk-2"])
def test_a_key_that_cannot_be_sent_names_its_setting_and_not_itself(key: str) -> None:
    with pytest.raises(ConfigurationError, match="GEMINI_API_KEY") as caught:
        check_key(key, "GEMINI_API_KEY")
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("reason", "refusal", "words"),
    [
        ("length", "", "used up its tokens before the first word"),
        ("content_filter", "", "content filter of llm.example:8000"),
        ("stop", "", "gave an empty answer (it stopped with “stop”)"),
        ("", "", "it stopped with “no reason”"),
        ("stop", "I cannot help.", "refused to answer: I cannot help."),
    ],
)
def test_an_answer_without_text_says_why(reason: str, refusal: str, words: str) -> None:
    with pytest.raises(ProviderError) as caught:
        check_answer(SERVICE, " \n", reason, refusal=refusal)
    assert words in str(caught.value)


def test_an_answer_with_text_passes_whatever_its_reason() -> None:
    for reason in ("stop", "length", "content_filter", ""):
        check_answer(SERVICE, "Two years [1].", reason)
