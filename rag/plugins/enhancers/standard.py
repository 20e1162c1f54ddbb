"""The enhancer ``standard``: answers and texts that keep to the sources."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from rag.core.plugins import register
from rag.plugins.enhancers.worded import WordedEnhancer
from rag.stages.prompting.prompt import Wording

_CHINESE = Wording(
    "基于以上参考资料，",
    "要求：",
    (
        "先看参考资料：里面写了的，以资料为准。",
        "与资料中已有的设定和说法一致，不要改动名称、数字和日期。",
        "资料没有写到的，说明资料里没有，不要编造。",
    ),
)
_ENGLISH = Wording(
    "On the basis of the reference material above: ",
    "Rules:",
    (
        "Look in the material first; what it says takes precedence over what you know.",
        "Stay consistent with it: leave its names, figures and dates as they are.",
        "Where it says nothing, say so; do not invent.",
    ),
)


@register("enhancer")
class Standard(WordedEnhancer):
    """Asks for an answer that uses the sources first and stays consistent with them."""

    name = "standard"
    label = gettext_lazy("Standard: keep to the sources")
    chinese, english = _CHINESE, _ENGLISH
