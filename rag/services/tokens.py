"""Token counting for chat models, by the o200k vocabulary."""

from __future__ import annotations

from functools import lru_cache

from rag.providers.bpe import BpeTokenizer

# What a prompt is put together of, and the whole of a context. Longer texts come once.
_MAX_KEPT = 20_000


def count_tokens(text: str) -> int:
    """Return the number of o200k tokens: exact for OpenAI's models, an estimate for others.

    Unlike a store's own tokenizer it loads no embedding model and fits contexts of many stores.
    """
    return _kept_count(text) if len(text) <= _MAX_KEPT else BpeTokenizer().count(text)


# The sources of an answer are counted for the search, for the prompt and for each question that
# finds them again; counting them takes as long as finding the caller, the stores and the rights.
@lru_cache(maxsize=512)
def _kept_count(text: str) -> int:
    return BpeTokenizer().count(text)
