"""Token counts are kept for texts of a prompt's size, and are those of the tokenizer."""

from __future__ import annotations

import pytest

from rag.providers.bpe import BpeTokenizer
from rag.services import tokens
from rag.services.tokens import count_tokens


@pytest.mark.parametrize(("n_words", "n_counts"), [(5, 1), (tokens._MAX_KEPT, 2)])
def test_a_text_is_counted_once_unless_it_is_long(
    monkeypatch: pytest.MonkeyPatch, n_words: int, n_counts: int
) -> None:
    tokens._kept_count.cache_clear()
    counted: list[str] = []
    count = BpeTokenizer.count

    def counting(self: BpeTokenizer, text: str) -> int:
        counted.append(text)
        return count(self, text)

    monkeypatch.setattr(BpeTokenizer, "count", counting)
    text = " ".join(["水泵 pump"] * n_words)
    first, again = count_tokens(text), count_tokens(text)
    assert first == again == count(BpeTokenizer(), text)
    assert len(counted) == n_counts
