"""Canned texts: what an agent says without a model, in the language of the question."""

from __future__ import annotations

from collections.abc import Sequence

from agents.core.prompts import language_of
from rag.core.hits import Hit

_TEXTS = {
    "unavailable": {
        "zh": "知识库检索暂时不可用，所以无法回答。请稍后再试。",
        "en": "The search is unavailable at the moment, so I cannot answer. "
        "Please try again later.",
    },
    "greeting": {
        "zh": "你好！我会根据知识库中的文档回答问题，并给出引用。请问想了解什么？",
        "en": "Hello! I answer questions from the documents of this knowledge base and cite them. "
        "What would you like to know?",
    },
    "dropped": {
        "zh": "我不知道：写出的回答没有一句能在资料中得到证实。",
        "en": "I do not know: no sentence of the answer that was written could be verified.",
    },
    "nothing cited": {
        "zh": "前面的回答没有引用可以再核对的资料，请就具体内容再问一次。",
        "en": "The answers before cite nothing that can be checked again. Please ask about the "
        "matter itself.",
    },
    "needs model": {
        "zh": "未配置能撰写文字的模型，无法翻译或改写；上一个回答所依据的原文是：\n",
        "en": "No model that writes is configured, so nothing can be translated or put in other "
        "words. The answer before rests on this:\n",
    },
    "no agent": {
        "zh": "没有可以回答这个问题的智能体。",
        "en": "There is no agent that could answer this.",
    },
}
_NOTHING = {
    "zh": "知识库中没有找到与这个问题有关的内容。",
    "en": "Nothing about this was found in the knowledge base.",
}
_UNSURE = {
    "zh": "我不知道：知识库中没有足够可靠的内容可以回答这个问题。",
    "en": "I do not know: the knowledge base holds nothing that answers this reliably.",
}
_LOOKED = {"zh": "查看过的资料：{names}。", "en": "I looked at: {names}."}
_JOINT = {"zh": "、", "en": ", "}
MAX_NAMES = 5


def canned_text(name: str, query: str) -> str:
    """Return what is said when the search is ``unavailable``, when no sentence of an answer held
    (``dropped``), when there is ``no agent`` to ask, as a ``greeting``, or to a request about the
    conversation where ``nothing cited`` can be shown or it ``needs model``."""
    return _TEXTS[name][language_of(query)]


def unknown_text(query: str, hits: Sequence[Hit]) -> str:
    """Return what is said when nothing, or nothing sure, was found; it names what was looked at."""
    language = language_of(query)
    names = list(dict.fromkeys(hit.file_name for hit in hits if hit.file_name))[:MAX_NAMES]
    if not names:
        return _NOTHING[language]
    looked = _LOOKED[language].format(names=_JOINT[language].join(names))
    return f"{_UNSURE[language]}{'' if language == 'zh' else ' '}{looked}"


_LIMITS = {
    "zh": {
        "calls": "工具调用的次数已用完",
        "tokens": "可用的 token 已用完",
        "time": "可用的时间已用完",
        "iterations": "思考的轮数已用完",
        "repeated": "继续查找没有带来新的内容",
    },
    "en": {
        "calls": "No more calls of tools are allowed",
        "tokens": "The tokens are used up",
        "time": "The time is used up",
        "iterations": "No more turns of thought are allowed",
        "repeated": "Searching on brought nothing new",
    },
}
_LIMITED = {
    "zh": "（{limit}，以下根据已查到的内容作答。）\n\n",
    "en": "({limit}; this is what was found so far.)\n\n",
}


def limit_text(query: str, limit: str) -> str:
    """Return how an answer begins that a limit cut short."""
    language = language_of(query)
    return _LIMITED[language].format(limit=_LIMITS[language][limit])
