"""Enhancer by wording: sources, prompt and rules, in the language of the prompt."""

from __future__ import annotations

from dataclasses import dataclass

from rag.stages.prompting.prompt import Wording, enhance_prompt


class WordedEnhancer:
    """What the enhancers that ship share: they differ in what they say in each language."""

    chinese: Wording
    english: Wording

    @dataclass(frozen=True)
    class Options:
        """None."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def enhance(self, prompt: str, context: str) -> str:
        """Return the prompt with sources and rules; unchanged without a context."""
        return enhance_prompt(prompt, context, chinese=self.chinese, english=self.english)
