"""Simplifying embedder: texts and questions reach the model in simplified Chinese.

Models know traditional characters badly. What is kept, shown and quoted is the text as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rag.core.ports import Embedder, Tokenizer
from rag.stages.text.simplified import EMBEDDED_FORM, embedded_text


class SimplifyingEmbedder:
    """The Embedder port on another one; its version says so, since other vectors come of it."""

    def __init__(self, model: Embedder) -> None:
        self.model = model
        self.id, self.dim, self.max_tokens = model.id, model.dim, model.max_tokens
        self.version = f"{model.version}/{EMBEDDED_FORM}"

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the model's own tokenizer, or its estimate."""
        return self.model.tokenizer

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 [n, dim] for texts to be found."""
        return self.model.embed_passages([embedded_text(text) for text in texts])

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return float32 [dim] for a question."""
        return self.model.embed_query(embedded_text(text))
