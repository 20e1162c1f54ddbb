"""Access: API keys, callers, rate limits, audit."""
