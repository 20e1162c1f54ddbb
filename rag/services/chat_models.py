"""How each chat provider is made from the settings. In: a model's name. Out: the port."""

from __future__ import annotations

from rag.conf import conf
from rag.core.errors import UnknownNameError
from rag.core.ports import ChatModel
from rag.providers.extractive import ExtractiveChatModel
from rag.services import wiring


def extractive(model: str) -> ChatModel:
    """Return the offline default, which quotes whole sentences."""
    if model != "sentences":
        raise UnknownNameError("extractive model", model, ["sentences"])
    return ExtractiveChatModel(score=_similarities)


def openai_compatible(model: str) -> ChatModel:
    """Return a model behind any ``/chat/completions`` endpoint."""
    # The SDK is heavy and belongs to this provider alone.
    from rag.providers.openai_compatible.chat import OpenAICompatibleChatModel

    settings = conf()
    return OpenAICompatibleChatModel(model, settings.openai_base_url, settings.openai_api_key)


def named_endpoint(provider: str, model: str) -> ChatModel:
    """Return a model behind one of the endpoints that the installation has given a name."""
    # The SDK is heavy and belongs to this provider alone.
    from rag.providers.openai_compatible.chat import OpenAICompatibleChatModel

    endpoint = conf().chat_endpoints[provider]
    made = OpenAICompatibleChatModel(
        model, endpoint.get("base_url", ""), endpoint.get("api_key", "")
    )
    made.id = f"{provider}:{model}"
    return made


def gemini(model: str) -> ChatModel:
    """Return a chat model of Gemini."""
    # The SDK is heavy and belongs to this provider alone.
    from rag.providers.gemini.chat import GeminiChatModel
    from rag.providers.gemini.client import GeminiEndpoint

    settings = conf()
    endpoint = GeminiEndpoint(
        settings.gemini_api_key, settings.gemini_base_url, settings.gemini_api_version
    )
    return GeminiChatModel(model, endpoint)


def _similarities(question: str, sentences: list[str]) -> list[float]:
    """Return how near each sentence is to the question by the configured embedder."""
    embedder = wiring.embedder()
    scores: list[float] = (
        embedder.embed_passages(sentences) @ embedder.embed_query(question)
    ).tolist()
    return scores
