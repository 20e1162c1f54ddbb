"""Token counting for chat models, by the o200k vocabulary."""

from __future__ import annotations

from rag.providers.bpe import BpeTokenizer


def count_tokens(text: str) -> int:
    """Return the number of o200k tokens: exact for OpenAI's models, an estimate for others.

    Unlike a store's own tokenizer it loads no embedding model and fits contexts of many stores.
    """
    return BpeTokenizer().count(text)
