"""The enhancer ``analytical``: conclusions that rest on the sources."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from rag.core.plugins import register
from rag.plugins.enhancers.worded import WordedEnhancer
from rag.stages.prompting.prompt import Wording

_CHINESE = Wording(
    "分析任务：",
    "分析要求：",
    (
        "以参考资料为依据展开分析。",
        "点明哪些信息是关键，出自哪一条资料。",
        "用资料中的数据说话，保留原来的数值和单位。",
        "推理一步一步写清楚；是推断的，就说是推断。",
    ),
)
_ENGLISH = Wording(
    "Analysis task: ",
    "Requirements:",
    (
        "Build the analysis on the reference material.",
        "Point out which facts are decisive and which source they come from.",
        "Support each point with data from the material, values and units unchanged.",
        "Reason step by step, and call an inference an inference.",
    ),
)


@register("enhancer")
class Analytical(WordedEnhancer):
    """Asks for an analysis with key facts, data and plain reasoning from the sources."""

    name = "analytical"
    label = gettext_lazy("Analytical: reason from the sources")
    chinese, english = _CHINESE, _ENGLISH
