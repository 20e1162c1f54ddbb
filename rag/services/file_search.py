"""Gemini's stores as one object a process. In: the settings. Out: the FileSearch port."""

from __future__ import annotations

from functools import lru_cache

from rag.conf import conf
from rag.core.file_search import FileSearch
from rag.services import wiring


def gemini_file_search() -> FileSearch:
    """Return Gemini's stores; raise ConfigurationError when GEMINI_API_KEY is not set."""
    settings = conf()
    return _gemini(
        settings.gemini_model,
        settings.gemini_api_key,
        settings.gemini_base_url,
        settings.gemini_api_version,
        settings.timeout_s,
        settings.gemini_max_file_mb,
    )


@lru_cache(maxsize=4)
def _gemini(
    model: str, key: str, base_url: str, api_version: str, timeout_s: float, max_file_mb: int
) -> FileSearch:  # fmt: skip
    # The SDK is heavy and belongs to this provider alone.
    from rag.providers.gemini.attach import Sending
    from rag.providers.gemini.client import GeminiEndpoint
    from rag.providers.gemini.file_search import GeminiFileSearch, GeminiFileSearchOptions

    endpoint = GeminiEndpoint(key, base_url, api_version)
    # Its models refuse Office files, so these are read here.
    sending = Sending(parser=wiring.parser(), max_file_mb=max_file_mb)
    options = GeminiFileSearchOptions(timeout_s=timeout_s, sending=sending)
    return GeminiFileSearch(model, endpoint, options=options)
