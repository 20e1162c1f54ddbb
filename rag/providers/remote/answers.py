"""Answer validation of chat models: finish reasons and empty texts as errors.

Reasons are the words stop, length and content_filter whatever the vendor calls them.
"""

from __future__ import annotations

from rag.core.errors import ProviderError
from rag.providers.remote.service import RemoteService


def check_answer(
    service: RemoteService, text: str, finish_reason: str, *, refusal: str = ""
) -> None:
    """Raise ProviderError saying why there is no text in a finished answer."""
    if text.strip():
        return
    if refusal:
        raise ProviderError(
            "The model {model} refused to answer: {reason}",
            hint="Ask in other words, or choose another model.",
            model=service.model,
            reason=service.clean(refusal),
        )
    if finish_reason == "length":
        raise ProviderError(
            "The model {model} used up its tokens before the first word of the answer.",
            hint="Raise max_tokens, or lower the thinking budget or reasoning effort.",
            model=service.model,
        )
    if finish_reason == "content_filter":
        raise ProviderError(
            "A content filter of {service} held back the answer of {model}.",
            hint="Ask in other words, or choose another model.",
            service=service.name,
            model=service.model,
        )
    raise ProviderError(
        "The model {model} gave an empty answer (it stopped with “{reason}”).",
        hint="Try again, or choose another model.",
        model=service.model,
        reason=finish_reason or "no reason",
    )
