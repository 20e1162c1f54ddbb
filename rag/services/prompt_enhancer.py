"""A prompt with its sources, by the name of an enhancement. Enhancers are plugins."""

from __future__ import annotations

from rag.services.plugins import make_plugin


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
