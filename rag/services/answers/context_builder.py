"""Context builder and prompt enhancer of the plugin API: results to context, context to prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rag.core.hits import Hit
from rag.services.plugins import make_plugin
from rag.services.tokens import count_tokens
from rag.stages.prompting.context import Context, build_context


class ContextBuilder:
    """Lays results out within ``max_context_length`` tokens, as ``count`` has them."""

    def __init__(
        self, max_context_length: int = 4000, *, count: Callable[[str], int] = count_tokens
    ) -> None:
        self.max_context_length = max_context_length
        self.count = count

    def build_context(
        self,
        query: str,
        rag_results: Sequence[Mapping[str, Any] | Hit],
        context_type: str = "standard",
    ) -> str:
        """Return the text of ``build``."""
        return self.build(query, rag_results, context_type).text

    def build(
        self,
        query: str,
        rag_results: Sequence[Mapping[str, Any] | Hit],
        context_type: str = "standard",
    ) -> Context:
        """Return the numbered sources, worded in the query's language, and what is shown of each.

        ``context_type`` is standard, detailed, summary or xml; another one is an
        UnknownNameError. A result without ``content`` is an InvalidInputError.
        """
        hits = [found if isinstance(found, Hit) else Hit.from_dict(found) for found in rag_results]
        return build_context(
            hits, self.max_context_length, self.count, context_type=context_type, language_of=query
        )


class PromptEnhancer:
    """Puts the sources of an answer before its prompt."""

    @staticmethod
    def enhance_prompt(
        original_prompt: str, rag_context: str, enhancement_type: str = "standard"
    ) -> str:
        """Return the prompt as the model shall see it; unchanged when there is no context.

        An unknown type is an UnknownNameError that lists the known ones, context or not.
        """
        enhancer = make_plugin(kind="enhancer", name=enhancement_type)
        if not rag_context:
            return original_prompt
        enhanced: str = enhancer.enhance(original_prompt, rag_context)
        return enhanced
