"""The enhancer ``creative``: new texts that fit what the sources have established."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from rag.core.plugins import register
from rag.plugins.enhancers.worded import WordedEnhancer
from rag.stages.prompting.prompt import Wording

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
class Creative(WordedEnhancer):
    """Asks for something new that agrees with the characters, plot and world of the sources."""

    name = "creative"
    label = gettext_lazy("Creative: write on, in agreement with the sources")
    chinese, english = _CHINESE, _ENGLISH
