"""CORS: the headers that pages of listed origins may send and read."""

from __future__ import annotations

from corsheaders.defaults import default_headers

_SDK = (
    "os lang package-version runtime runtime-version arch retry-count timeout async helper-method"
)
# What browsers' clients send: ours, OpenAI's SDK, MCP's.
REQUEST = (
    *default_headers,
    "accept-language",
    "idempotency-key",
    "if-none-match",
    "if-range",
    "last-event-id",
    "range",
    "x-request-id",
    "openai-organization",
    "openai-project",
    *(f"x-stainless-{name}" for name in _SDK.split()),
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
)
RESPONSE = (
    "Content-Disposition",
    "Content-Range",
    "ETag",
    "Retry-After",
    "X-Citable-Ignored",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "X-Request-ID",
    "x-should-retry",
    "x-ratelimit-limit-requests",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests",
)
