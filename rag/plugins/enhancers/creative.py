"""The enhancer ``creative``: new texts that fit what the sources have established."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext_lazy

from rag.core.plugins import register
from rag.stages.prompting.prompt import Wording, enhance_prompt

_CHINESE = Wording(
    "创作任务：",
    "创作指南：",
    (
        "资料给的是背景，不是范文：可以有新的想法，不必照抄。",
        "人物的性格、口吻和相互关系，与资料中一致。",
        "情节顺着大纲走，不与已经发生的事矛盾。",
        "世界观、地点和时间线，以资料的设定为准。",
    ),
)
_ENGLISH = Wording(
    "Writing task: ",
    "Guidelines:",
    (
        "The material is background, not a model to copy: new ideas are welcome.",
        "Characters keep the nature, the voice and the relations they have in it.",
        "The plot follows the outline and contradicts nothing that has happened.",
        "The world, its places and its timeline stay as the material sets them.",
    ),
)


@register("enhancer")
class Creative:
    """Asks for something new that agrees with the characters, plot and world of the sources."""

    name = "creative"
    label = gettext_lazy("Creative: write on, in agreement with the sources")

    @dataclass(frozen=True)
    class Options:
        """None."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def enhance(self, prompt: str, context: str) -> str:
        """Return the prompt with sources and guidelines; unchanged without a context."""
        return enhance_prompt(prompt, context, chinese=_CHINESE, english=_ENGLISH)
