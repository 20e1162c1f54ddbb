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
