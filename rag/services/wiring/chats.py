"""Chat providers that ship: extractive, OpenAI-compatible, Gemini and scripted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from django.utils.translation import gettext_lazy as _

from rag.conf import conf
from rag.core.errors import UnknownNameError
from rag.core.options import option
from rag.core.plugins import register
from rag.services.wiring import registry as wiring

if TYPE_CHECKING:
    from rag.core.ports import ChatModel


@register("chat")
class ExtractiveProvider:
    """The offline default, which quotes whole sentences."""

    name, label, only_quotes = "extractive", _("quotes without a model"), True

    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options: Options) -> None: ...

    def load(self, model: str) -> ChatModel:
        """Return the model of ``extractive:sentences``."""
        # The sentence and citation steps: only where no model writes.
        from rag.providers.extractive import ExtractiveChatModel

        if model != "sentences":
            raise UnknownNameError("extractive model", model, ["sentences"])
        return ExtractiveChatModel(score=_similarities)


@register("chat")
class OpenAICompatibleChats:
    """Any model behind a ``/chat/completions`` endpoint."""

    name, label = "openai_compatible", _("OpenAI-compatible endpoint")

    @dataclass(frozen=True)
    class Options:
        base_url: str = option("", help="The endpoint's address.", setting="openai_base_url")

    def __init__(self, options: Options) -> None:
        self.options = options

    def load(self, model: str) -> ChatModel:
        """Return a model of the endpoint."""
        # The SDK is heavy and belongs to this provider alone.
        from rag.providers.openai_compatible.chat import OpenAICompatibleChatModel

        return OpenAICompatibleChatModel(model, self.options.base_url, conf().openai_api_key)


@register("chat")
class GeminiChats:
    """A chat model of Gemini."""

    name, label = "gemini", "Gemini"

    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options: Options) -> None: ...

    def load(self, model: str) -> ChatModel:
        """Return a chat model of Gemini."""
        # The SDK is heavy and belongs to this provider alone.
        from rag.providers.gemini.chat import GeminiChatModel
        from rag.providers.gemini.client import GeminiEndpoint

        settings = conf()
        endpoint = GeminiEndpoint(
            settings.gemini_api_key, settings.gemini_base_url, settings.gemini_api_version
        )
        return GeminiChatModel(model, endpoint)


@register("chat")
class ScriptedProvider:
    """Answers from a script, for tests and for trying flows without a model."""

    name, label = "scripted", _("answers from a script")

    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options: Options) -> None: ...

    def load(self, model: str) -> ChatModel:
        """Return the model whose name is the path of a YAML file."""
        # YAML: only where a script is asked for.
        from rag.providers.scripted import Script, ScriptedChatModel

        return ScriptedChatModel(Script.read(Path(model)), model)


def _similarities(question: str, sentences: list[str]) -> list[float]:
    """Return how near each sentence is to the question by the configured embedder."""
    model = wiring.embedder()
    scores: list[float] = (model.embed_passages(sentences) @ model.embed_query(question)).tolist()
    return scores
