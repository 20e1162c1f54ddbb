"""Remote service errors: statuses, bodies and empty answers as our errors, cleaned of secrets.

A server's own words go to the log and to ``detail``, never to who asked: they quote keys, prompts,
addresses inside and whole web pages. They pass ``clean`` first.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from rag.core.errors import ConfigurationError, ProviderError, ProviderTimeoutError
from rag.providers.remote.retry import Failure

TRANSIENT = frozenset({408, 429})
MAX_REASON_CHARS = 300
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RemoteService:
    """Who is called: its name and model for people, the settings that lead to it, its secret."""

    name: str
    model: str
    key_setting: str
    url_setting: str
    secret: str = field(default="", repr=False)

    def clean(self, text: object) -> str:
        """Return a server's words without the secret, on one line, short."""
        words = " ".join(str(text or "").split())
        if self.secret:
            words = words.replace(self.secret, "***")
        if words.startswith("<"):
            return "a web page"
        return words[:MAX_REASON_CHARS] or "no reason given"

    def logged(self, event: str, said: object) -> str:
        """Write a server's words to the log and return them, cleaned."""
        words = self.clean(said)
        _log.warning("%s (model %s), %s: %s", self.name, self.model, event, words)
        return words

    def timed_out(self, timeout_s: float) -> Failure:
        """Return the failure of a call that got no answer in time."""
        error = ProviderTimeoutError(
            "{service} did not answer within {seconds} s (model {model}).",
            hint="Try again, or raise RAG_TIMEOUT_S.",
            service=self.name,
            seconds=f"{timeout_s:.3g}",
            model=self.model,
        )
        return Failure(error, is_transient=True)

    def unreachable(self, reason: object) -> Failure:
        """Return the failure of a connection that was refused, lost or cut off."""
        error = ProviderError(
            "The connection to {service} failed.",
            hint="Check the network and {setting}.",
            detail=self.logged("no connection", reason),
            service=self.name,
            setting=self.url_setting,
        )
        return Failure(error, is_transient=True)

    def unreadable(self, reason: object) -> Failure:
        """Return the failure of an answer that is not what the protocol says."""
        error = ProviderError(
            "{service} answered with something that is no answer of a model.",
            hint="Check that {setting} names the service itself, and no login or proxy page.",
            detail=self.logged("no answer of a model", reason),
            service=self.name,
            setting=self.url_setting,
        )
        return Failure(error)

    def refused(self, status: int, reason: object, retry_after_s: float | None = None) -> Failure:
        """Return the failure of an HTTP status other than 200."""
        error = _error(
            status,
            detail=self.logged(f"HTTP {status}", reason),
            service=self.name,
            model=self.model,
            status=status,
            key_setting=self.key_setting,
            url_setting=self.url_setting,
        )
        return Failure(error, status in TRANSIENT or status >= 500, retry_after_s)


def check_address(url: str, setting: str, example: str = "http://localhost:11434/v1") -> str:
    """Return ``host:port`` of a base URL; raise ConfigurationError naming ``setting``."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigurationError(
            "{setting} is no web address.",
            hint="Write it like {example}.",
            setting=setting,
            example=example,
        )
    return f"{host}:{port}" if port else host


def check_key(key: str, setting: str) -> str:
    """Return the key without blanks around it; raise ConfigurationError naming ``setting``."""
    key = key.strip()
    if not all("!" <= character <= "~" for character in key):
        raise ConfigurationError(
            "{setting} holds characters that no key has.",
            hint="Copy the key again, without blanks, quotes or line breaks.",
            setting=setting,
        )
    return key


def _error(code: int, **facts: Any) -> ProviderError:
    if code in (401, 403):
        return ProviderError(
            "{service} did not accept the key (HTTP {status}).",
            hint="Check {key_setting}.",
            **facts,
        )
    if code == 404:
        return ProviderError(
            "{service} does not know the address or the model {model} (HTTP {status}).",
            hint="Check the model's name and {url_setting}.",
            **facts,
        )
    if code == 429:
        return ProviderError(
            "{service} is busy, or the quota is used up (HTTP {status}).",
            hint="Try again later, or raise the quota.",
            **facts,
        )
    if 300 <= code < 400:
        return ProviderError(
            "{service} sends callers to another address (HTTP {status}).",
            hint="Set {url_setting} to the final address.",
            **facts,
        )
    if code >= 500:
        return ProviderError("{service} failed (HTTP {status}).", hint="Try again later.", **facts)
    return ProviderError(
        "{service} refused the request (HTTP {status}).",
        hint="Check the model {model} and its options. The server's log has the reason.",
        **facts,
    )


def check_answer(
    service: RemoteService, text: str, finish_reason: str, *, refusal: str = ""
) -> None:
    """Raise ProviderError saying why there is no text in a finished answer.

    Reasons are the words stop, length and content_filter, whatever the vendor calls them.
    """
    if text.strip():
        return
    if refusal:
        raise ProviderError(
            "The model {model} refused to answer: {reason}",
            hint="Ask in other words, or choose another model.",
            model=service.model,
            reason=service.clean(refusal),
        )
    if finish_reason == "length":
        raise ProviderError(
            "The model {model} used up its tokens before the first word of the answer.",
            hint="Raise max_tokens, or lower the thinking budget or reasoning effort.",
            model=service.model,
        )
    if finish_reason == "content_filter":
        raise ProviderError(
            "A content filter of {service} held back the answer of {model}.",
            hint="Ask in other words, or choose another model.",
            service=service.name,
            model=service.model,
        )
    raise ProviderError(
        "The model {model} gave an empty answer (it stopped with “{reason}”).",
        hint="Try again, or choose another model.",
        model=service.model,
        reason=finish_reason or "no reason",
    )
