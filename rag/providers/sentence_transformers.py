"""Embedder on sentence-transformers models (BGE, Qwen, ...): unit vectors.

An extra: the package is installed by whoever chooses such a model.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rag.core.errors import ConfigurationError
from rag.providers.local_models import average_windows, sendable_characters

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer as HuggingFaceTokenizer

_REQUIREMENT = "sentence-transformers==6.2.0"
_DEFAULT_POSITIONS = 512
# A window cut out of a text may have a few more tokens than it had there.
_MARGIN = 8


class FastTokenizer:
    """Counts and locates tokens as the model's own tokenizer does, specials left out."""

    def __init__(self, name: str, tokenizer: HuggingFaceTokenizer) -> None:
        self.id = name
        # A copy: the model's own is reconfigured in each call, which other threads must not see.
        self._tokenizer = type(tokenizer).from_str(tokenizer.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def count(self, text: str) -> int:
        """Return the number of tokens of ``text``."""
        return len(self._tokenizer.encode(sendable_characters(text), add_special_tokens=False).ids)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return each token's (start, end) in code points of ``text``, in order."""
        encoded = self._tokenizer.encode(sendable_characters(text), add_special_tokens=False)
        spans: list[tuple[int, int]] = encoded.offsets
        return spans


class SentenceTransformersEmbedder:
    """Embeds one text a run; the prompts for queries and documents are those the model defines.

    ``model`` is a folder or a name on the Hugging Face hub, loaded at once. Texts longer than
    ``max_tokens`` are embedded in windows whose vectors are averaged by length. Raises
    ConfigurationError when the package is missing or the model cannot be loaded.
    """

    def __init__(self, model: str, *, device: str | None = None) -> None:
        self._model = _load(model, device)
        self._lock = threading.Lock()
        self.id = f"sentence_transformers:{model}"
        self.version = f"weights-{_fingerprint(self._model)}"
        self.dim = int(self._model.get_embedding_dimension() or 0)
        self.tokenizer = FastTokenizer(model, _fast_tokenizer(self._model, model))
        self.max_tokens = self._room()

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32 [n, dim] for texts to be found."""
        vectors = [self._embed(text, self._model.encode_document) for text in texts]
        return np.stack(vectors) if vectors else np.empty((0, self.dim), dtype=np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return float32 [dim] for a question."""
        return self._embed(text, self._model.encode_query)

    def _embed(self, text: str, encode: Callable[..., object]) -> NDArray[np.float32]:
        cleaned = sendable_characters(text)
        spans = self.tokenizer.offsets(cleaned)
        size = self.max_tokens if len(spans) <= self.max_tokens else self.max_tokens - _MARGIN

        def embed(window: str) -> NDArray[np.float32]:
            # One at a time: the package's tokenizer is not safe with threads, and torch itself
            # uses all cores. No batches: padding would change a vector's last digits.
            with self._lock:
                made = encode(window, show_progress_bar=False, normalize_embeddings=True)
            return np.asarray(made, dtype=np.float32)

        return average_windows(embed, cleaned, spans, size)

    def _room(self) -> int:
        positions = self._model.max_seq_length or _DEFAULT_POSITIONS
        n_specials = self._model.tokenizer.num_special_tokens_to_add()
        prompts = (self._model.prompts or {}).values()
        longest = max((self.tokenizer.count(prompt or "") for prompt in prompts), default=0)
        return int(positions - n_specials - longest)


def _load(model: str, device: str | None) -> SentenceTransformer:
    # torch takes seconds and hundreds of megabytes, and is an extra.
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ConfigurationError(
            "The model {model} needs a package that is not installed ({reason}).",
            hint="Run: pip install {requirement}",
            model=model,
            reason=error,
            requirement=_REQUIREMENT,
        ) from error
    try:
        return SentenceTransformer(model, device=device)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            "The model {model} cannot be loaded: {reason}",
            hint="Give the folder of a model, or its name on the hub and access to the hub.",
            model=model,
            reason=error,
        ) from error


def _fast_tokenizer(model: SentenceTransformer, name: str) -> HuggingFaceTokenizer:
    # It comes with the extra.
    from tokenizers import Tokenizer as HuggingFaceTokenizer

    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    if isinstance(backend, HuggingFaceTokenizer):
        return backend
    raise ConfigurationError(
        "The tokenizer of {model} does not tell where its tokens are.",
        hint="Choose a model with a tokenizer.json.",
        model=name,
    )


def _fingerprint(model: SentenceTransformer) -> str:
    """Return 12 hex digits that change with the weights, the architecture and the prompts."""
    digest = hashlib.sha256(f"{model}{model.prompts}{model.max_seq_length}".encode())
    for name, tensor in sorted(model.state_dict().items()):
        # The beginning of each tensor tells models apart; all of it would take seconds.
        head = tensor.detach().cpu().flatten()[:256].float().numpy()
        digest.update(name.encode() + head.tobytes())
    return digest.hexdigest()[:12]
