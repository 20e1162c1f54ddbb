"""Step Route: whether a question goes to retrieval, small talk or the database."""

from __future__ import annotations

import re

from agents.core.pipeline import PipelineRun, PipelineState

# The whole message must be small talk: «你好，保修期多久» is a question.
_SMALL_TALK = re.compile(
    r"(?:[你您]?好(?:呀|啊|吗)?|(?:你|您|大家)们?好|嗨|哈喽|哈啰|喂|在吗|在不在|"
    r"早(?:上好|安)?|(?:上午|中午|下午|晚上)好|晚安|"
    r"(?:多|非常|十分|太)?(?:谢谢?|感谢)(?:你|您|啦|了|[你您]的帮助)?|"
    r"辛苦了?|再见|拜拜|好的?|明白了?|知道了|收到|没(?:事|问题)了?|"
    r"[你您]是(?:谁|什么|机器人吗|人工智能吗)|[你您]叫什么(?:名字)?|"
    r"[你您](?:会|能)(?:做|干)?些?什么|[你您]能帮我做?什么|"
    r"hi(?: there)?|hello(?: there)?|hey(?: there)?|good (?:morning|afternoon|evening|night|day)|"
    r"(?:many )?thanks?(?: you)?(?: (?:so|very) much| a lot)?|thank you(?: (?:so|very) much)?|"
    r"thx|cheers|bye(?: bye)?|good ?bye|see you(?: later)?|ok(?:ay)?|great|got it|"
    r"how are you(?: doing)?(?: today)?|"
    r"who are you|what are you|what(?:'s| is) your name|what can you do(?: for me)?|"
    r"are you (?:a )?(?:bot|robot|human))",
    re.I,
)


_GAPS = re.compile(r"[\s,，.。!！?？~～、;；:：…\U0001F300-\U0001FAFF\u2600-\u27bf]+")


_MAX_CHARACTERS = 60


async def route_step(state: PipelineState, run: PipelineRun) -> PipelineState:
    """Return ``route_step``, with the ``facts`` that answer a question on the stores themselves."""
    query = state["query"]
    if is_small_talk(query):
        return {"route": "small_talk"}
    facts = await run.store_facts(query)
    return {"route": "about_store", "facts": facts} if facts else {"route": "retrieve"}


def is_small_talk(text: str) -> bool:
    """Return whether a message is nothing but greetings, thanks and the like."""
    if len(text) > _MAX_CHARACTERS:
        return False
    parts = [part for part in re.split(r"[,，.。!！?？;；~～\n]+", text) if _GAPS.sub("", part)]
    return bool(parts) and all(_SMALL_TALK.fullmatch(_bare(part)) for part in parts)


def _bare(part: str) -> str:
    return " ".join(_GAPS.sub(" ", part).split())
