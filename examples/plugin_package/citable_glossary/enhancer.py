"""The enhancer ``plain_words``. In: prompt and sources. Out: both, with a wish for plain words."""

from __future__ import annotations

from dataclasses import dataclass

from rag.core.options import option
from rag.core.plugins import register


@register("enhancer")
class PlainWords:
    """Asks for a few plain sentences that rest on the sources."""

    name = "plain_words"
    label = "Plain words"

    @dataclass(frozen=True)
    class Options:
        max_sentences: int = option(3, help="The longest answer.", minimum=1, maximum=20)

    def __init__(self, options: Options) -> None:
        self.options = options

    def enhance(self, prompt: str, context: str) -> str:
        """Return context, prompt and wish; without a context the prompt unchanged."""
        if not context:
            return prompt
        wish = f"Answer from the above in at most {self.options.max_sentences} plain sentences."
        return f"{context}\n\n{prompt}\n\n{wish}\n"
