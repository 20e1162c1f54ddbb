"""Logging: plain or JSON lines with the ids of request and run.

Secrets of this installation, and API keys, are masked wherever they stand.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rag.core.request_context import current_account, current_request

FORMATS = ("plain", "json")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
# The settings of RAG whose values are secrets, or hold some.
SECRET_SETTINGS = (
    "OPENAI_API_KEY",
    "CHAT_ENDPOINTS",
    "GEMINI_API_KEY",
    "SECRETS",
    "REDIS_URL",
    "RERANK_KEY",
    "MILVUS_TOKEN",
    "S3_SECRET_KEY",
    "S3_SESSION_TOKEN",
)
_KEYS = re.compile(r"ck_[0-9a-f]{8}_[\w-]+|(?i:bearer|token)\s+[\w.~+/=-]{12,}")
_LEAST = 8
# Clients of services tell each address that they call, with what is asked.
_LOUD = (
    "axes",
    "procrastinate",
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
    "openai",
    "google_genai",
    "mcp",
    "botocore",
    "boto3",
    "uvicorn.access",
    "milvus_lite",
    "faiss.loader",
)


class SecretFilter(logging.Filter):
    """Blots out secrets in what is about to be written; ``secrets`` are values of settings."""

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        super().__init__()
        known = sorted((one for one in secrets if len(one) >= _LEAST), key=len, reverse=True)
        self._secrets = re.compile("|".join(map(re.escape, known))) if known else None

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, its message made whole and clean."""
        try:
            text = record.getMessage()
        except Exception as error:
            # A message of any library; whoever writes a line must not fail by it.
            text = f"{record.msg} [{type(error).__name__}: its arguments do not fit]"
        record.msg, record.args = self.clean(text), ()
        return True

    def clean(self, text: str) -> str:
        """Return a text without secrets."""
        text = self._secrets.sub("***", text) if self._secrets else text
        return _KEYS.sub("***", text)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and where they are known the ids."""

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        super().__init__()
        self._discretion = SecretFilter(secrets)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback is one of its values."""
        account, request = current_account(), current_request()
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "request": request.id,
            "run": account.run,
            "agent": account.agent,
            "user": account.user_id,
            "key": account.key_id,
            "process": record.process,
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["error"] = self._discretion.clean(self.formatException(record.exc_info))
        kept = {k: v for k, v in line.items() if v not in (None, "") or k == "message"}
        return json.dumps(kept, ensure_ascii=False, default=str)


class PlainFormatter(logging.Formatter):
    """``LEVEL logger message``, and the traceback without secrets."""

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        super().__init__("{levelname} {name} {message}", style="{")
        self._discretion = SecretFilter(secrets)

    def formatException(self, info: Any) -> str:
        """Return the traceback, clean."""
        return self._discretion.clean(super().formatException(info))


def logging_config(level: str, form: str, secrets: Mapping[str, Any]) -> dict[str, Any]:
    """Return Django's LOGGING; ``form`` is one of FORMATS, the values of ``secrets`` are hidden."""
    hidden = tuple(_texts(secrets))
    lines = JsonFormatter if form == "json" else PlainFormatter
    access = "INFO" if form == "json" else "WARNING"
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"discretion": {"()": SecretFilter, "secrets": hidden}},
        "formatters": {"lines": {"()": lines, "secrets": hidden}},
        "handlers": {
            "console": {
                "class": "logging.StreamHandler",
                "formatter": "lines",
                "filters": ["discretion"],
            }
        },
        "root": {"handlers": ["console"], "level": level},
        "loggers": {
            **{name: {"level": "WARNING"} for name in _LOUD},
            "rag.access": {"level": access},
        },
    }


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for one in value.values() for text in _texts(one)]
    return [value] if isinstance(value, str) else []
