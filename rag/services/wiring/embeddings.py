"""Embedding providers that ship: e5, use, OpenAI-compatible, Gemini and sentence-transformers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext_lazy as _

from rag.conf import conf
from rag.core.errors import UnknownNameError
from rag.core.options import option
from rag.core.plugins import register

if TYPE_CHECKING:
    from rag.core.ports import Embedder


@register("embedding")
class E5Provider:
    """The offline default, in 512 tokens and many languages."""

    name, label = "e5", "multilingual-e5-small"

    @dataclass(frozen=True)
    class Options:
        precision: str = option("int8", help="int8 or fp32.", setting="e5_precision")
        threads: int = option(
            0, help="Threads; 0 is one per core.", setting="embedding_threads", minimum=0
        )

    def __init__(self, options: Options) -> None:
        self.options = options

    def load(self, model: str) -> Embedder:
        """Return the embedder of ``e5:multilingual-e5-small``."""
        from rag.providers.e5.embedder import E5Embedder  # numpy and ONNX Runtime: only when needed

        if model != "multilingual-e5-small":
            raise UnknownNameError("e5 model", model, ["multilingual-e5-small"])
        return E5Embedder(
            precision=self.options.precision,
            threads=self.options.threads or None,
            cache_dir=conf().models_dir,
        )


@register("embedding")
class UseProvider:
    """The fast, weaker offline model."""

    name, label = "use", _("fast universal sentence encoder")

    @dataclass(frozen=True)
    class Options:
        threads: int = option(
            0, help="Threads; 0 is one per core.", setting="embedding_threads", minimum=0
        )

    def __init__(self, options: Options) -> None:
        self.options = options

    def load(self, model: str) -> Embedder:
        """Return the embedder of ``use:multilingual-v3``."""
        from rag.providers.use import UseEmbedder  # numpy and the model's tables: only when needed

        if model != "multilingual-v3":
            raise UnknownNameError("use model", model, ["multilingual-v3"])
        return UseEmbedder(threads=self.options.threads or None)


@register("embedding")
class OpenAICompatibleEmbeddings:
    """Any model behind an ``/embeddings`` endpoint."""

    name, label, is_remote = "openai_compatible", _("OpenAI-compatible endpoint"), True

    @dataclass(frozen=True)
    class Options:
        base_url: str = option("", help="The endpoint's address.", setting="openai_base_url")
        dim: int = option(
            0, help="Dimensions; 0 is what the model has.", setting="embedding_dim", minimum=0
        )
        query_prefix: str = option("", help="Before questions.", setting="query_prefix")
        passage_prefix: str = option("", help="Before passages.", setting="passage_prefix")
        timeout_s: float = option(60.0, help="Timeout.", setting="timeout_s", minimum=0)

    def __init__(self, options: Options) -> None:
        self.options = options

    def load(self, model: str) -> Embedder:
        """Return the embedder of a model of the endpoint."""
        # The SDK is heavy and belongs to this provider alone.
        from rag.providers.openai_compatible.embedder import (
            EmbedderOptions,
            OpenAICompatibleEmbedder,
        )

        given = self.options
        options = EmbedderOptions(
            dimensions=given.dim or None,
            query_prefix=given.query_prefix,
            passage_prefix=given.passage_prefix,
            timeout_s=given.timeout_s,
        )
        return OpenAICompatibleEmbedder(
            model, given.base_url, conf().openai_api_key, given.dim, options=options
        )


@register("embedding")
class GeminiEmbeddings:
    """An embedding model of Gemini."""

    name, label, is_remote = "gemini", "Gemini", True

    @dataclass(frozen=True)
    class Options:
        dim: int = option(
            0, help="Dimensions; 0 is the model's all.", setting="embedding_dim", minimum=0
        )
        timeout_s: float = option(60.0, help="Timeout.", setting="timeout_s", minimum=0)

    def __init__(self, options: Options) -> None:
        self.options = options

    def load(self, model: str) -> Embedder:
        """Return the embedder of a Gemini model."""
        # The SDK is heavy and belongs to this provider alone.
        from rag.providers.gemini.client import GeminiEndpoint
        from rag.providers.gemini.embedder import FULL_DIM, GeminiEmbedder, GeminiEmbedderOptions

        settings = conf()
        endpoint = GeminiEndpoint(
            settings.gemini_api_key, settings.gemini_base_url, settings.gemini_api_version
        )
        options = GeminiEmbedderOptions(
            dim=self.options.dim or FULL_DIM, timeout_s=self.options.timeout_s
        )
        return GeminiEmbedder(model, endpoint, options=options)


@register("embedding")
class SentenceTransformersProvider:
    """A local model of the extra, such as BGE or Qwen."""

    name, label = "sentence_transformers", "sentence-transformers"

    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options: Options) -> None: ...

    def load(self, model: str) -> Embedder:
        """Return the embedder of a model by its name or folder."""
        # The extra brings PyTorch; it is imported only where it is asked for.
        from rag.providers.sentence_transformers import SentenceTransformersEmbedder

        return SentenceTransformersEmbedder(model)
