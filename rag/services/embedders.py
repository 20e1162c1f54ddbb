"""How each embedding provider is made from the settings. In: a model's name. Out: the port."""

from __future__ import annotations

from rag.conf import conf
from rag.core.errors import UnknownNameError
from rag.core.ports import Embedder


def e5(model: str) -> Embedder:
    """Return the offline default."""
    from rag.providers.e5.embedder import E5Embedder  # numpy and ONNX Runtime: only when needed

    if model != "multilingual-e5-small":
        raise UnknownNameError("e5 model", model, ["multilingual-e5-small"])
    settings = conf()
    return E5Embedder(
        precision=settings.e5_precision,
        threads=settings.embedding_threads or None,
        cache_dir=settings.models_dir,
    )


def use(model: str) -> Embedder:
    """Return the fast, weaker offline model."""
    from rag.providers.use import UseEmbedder  # numpy and the model's tables: only when needed

    if model != "multilingual-v3":
        raise UnknownNameError("use model", model, ["multilingual-v3"])
    return UseEmbedder(threads=conf().embedding_threads or None)


def openai_compatible(model: str) -> Embedder:
    """Return a model behind any ``/embeddings`` endpoint."""
    # The SDK is heavy and belongs to this provider alone.
    from rag.providers.openai_compatible.embedder import EmbedderOptions, OpenAICompatibleEmbedder

    settings = conf()
    return OpenAICompatibleEmbedder(
        model,
        settings.openai_base_url,
        settings.openai_api_key,
        settings.embedding_dim,
        options=EmbedderOptions(
            dimensions=settings.embedding_dim or None,
            query_prefix=settings.query_prefix,
            passage_prefix=settings.passage_prefix,
            timeout_s=settings.timeout_s,
        ),
    )


def gemini(model: str) -> Embedder:
    """Return an embedding model of Gemini."""
    # The SDK is heavy and belongs to this provider alone.
    from rag.providers.gemini.client import GeminiEndpoint
    from rag.providers.gemini.embedder import FULL_DIM, GeminiEmbedder, GeminiEmbedderOptions

    settings = conf()
    endpoint = GeminiEndpoint(
        settings.gemini_api_key, settings.gemini_base_url, settings.gemini_api_version
    )
    options = GeminiEmbedderOptions(
        dim=settings.embedding_dim or FULL_DIM, timeout_s=settings.timeout_s
    )
    return GeminiEmbedder(model, endpoint, options=options)


def sentence_transformers(model: str) -> Embedder:
    """Return a local model of the extra, such as BGE or Qwen."""
    # The extra brings PyTorch; it is imported only where it is asked for.
    from rag.providers.sentence_transformers import SentenceTransformersEmbedder

    return SentenceTransformersEmbedder(model)
