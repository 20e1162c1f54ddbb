"""What loops say of themselves without a model, in the language of the question."""

from __future__ import annotations

from agents.nodes.pipeline_data import language_of

_LIMITS = {
    "zh": {
        "calls": "工具调用的次数已用完", "tokens": "可用的 token 已用完",
        "time": "可用的时间已用完", "iterations": "思考的轮数已用完",
        "repeated": "继续查找没有带来新的内容",
    },
    "en": {
        "calls": "No more calls of tools are allowed", "tokens": "The tokens are used up",
        "time": "The time is used up", "iterations": "No more turns of thought are allowed",
        "repeated": "Searching on brought nothing new",
    },
}  # fmt: skip
_LIMITED = {
    "zh": "（{limit}，以下根据已查到的内容作答。）\n\n",
    "en": "({limit}; this is what was found so far.)\n\n",
}
_NOBODY = {
    "zh": "没有可以回答这个问题的智能体。",
    "en": "There is no agent that could answer this.",
}


def limit_text(query: str, limit: str) -> str:
    """Return how an answer begins that a limit cut short."""
    language = language_of(query)
    return _LIMITED[language].format(limit=_LIMITS[language][limit])


def nobody_text(query: str) -> str:
    """Return what is said when no agent can be asked."""
    return _NOBODY[language_of(query)]
