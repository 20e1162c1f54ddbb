"""Conversation requests: what a message asks of the answers before it, such as a translation.

Only what plainly means the conversation is taken; whatever names a thing of its own is a question.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rag.stages.text.normalize import to_simplified

# Parts of the patterns below, by name: the answer before, all that was said, and others.
_PARTS = {
    "zh_it": (
        "(?:(?:[你您]?(?:的|刚才的?|刚刚的?|上面的?|上一个|上一条|前面的?|之前的?|这个|那个"
        "|这段|这些|它|上述|以上)*(?:回答|答案|回复|内容|话|结果|答复|说的)?)(?:全部|都)?)"
    ),
    "zh_talk": (
        "(?:(?:一下)?(?:我们|咱们|我|你我)?(?:刚才|刚刚|前面|上面|之前|以上|目前|到现在为止"
        "|今天|这次)*的?(?:所?(?:聊|谈|讨论|说|讲|问)(?:过|到|了)?的?(?:所有|全部|这些"
        ")?(?:内容|话题|东西|问题|要点|话)?|(?:全部|整个|所有)?的?(?:对话|谈话|聊天|会话"
        "|讨论|问答)(?:内容|记录)?))"
    ),
    "zh_do": "(?:[把将给用再帮我请])*",
    "zh_lang": (
        "(?:英文|英语|中文|汉语|普通话|繁体(?:中文|字)?|简体(?:中文|字)?|日语|日文|法语|法文"
        "|德语|德文|西班牙语|俄语|韩语|葡萄牙语|意大利语|阿拉伯语)"
    ),
    "zh_end": "(?:给我|一下|看看|好吗|可以吗|行吗|吧|呢|一点|一些|点|些)*",
    "en_it": (
        "(?:(?:it|that|this|them|these|those)|(?:your|the|this|that) (?:(?:last|previous"
        "|above|whole|first) )?(?:answer|reply|response|text|message|explanation|summary)s?"
        "|what you (?:just )?(?:said|wrote)|(?:the )?above)"
    ),
    "en_talk": (
        "(?:(?:our|the|this) (?:whole |entire )?(?:conversation|chat|discussion|dialogue"
        "|talk)(?: so far| above)?|what (?:we|i)(?:'ve| have)? (?:just )?(?:talked about"
        "|discussed|covered|said|asked)(?: (?:so far|above|just now|today|until now))?"
        "|everything (?:above|so far)|(?:the )?(?:answers|questions) (?:so far|above))"
    ),
    "en_lang": (
        "(?:simplified |traditional )?(?:english|chinese|mandarin|german|french|spanish"
        "|italian|japanese|korean|russian|portuguese|arabic|dutch|polish|turkish|hindi)"
    ),
    "en_end": "(?: (?:please|for me|again|now|once more|then|instead))*",
}
_SPOKEN = (
    (
        "translate",
        "<zh_do><zh_it>?(?:翻译|译|翻|改|换|转换?)(?:成|为|作|到)?<zh_lang><zh_end>",
    ),
    (
        "translate",
        "<zh_do>(?:翻译|译)(?:一下)?<zh_it><zh_end>",
    ),
    (
        "translate",
        "<zh_do><zh_it>翻译<zh_end>",
    ),
    (
        "translate",
        "<zh_do><zh_lang>(?:再)?(?:说|讲|写|回答|复述|重复|表达|来)?(?:一?[遍次下]"
        ")?<zh_it><zh_end>",
    ),
    (
        "simpler",
        "<zh_do><zh_it>(?:说|讲|写|解释)?得?(?:再|更)?(?:简单|通俗|易懂|通俗易懂|直白|浅显"
        "|明白|清楚)<zh_end>",
    ),
    (
        "simpler",
        "<zh_do>(?:简单|通俗|大白话|更简单|最简单)(?:地|的话|的语言)?(?:说|讲|解释|来说"
        ")(?:一[遍次下])?<zh_it><zh_end>",
    ),
    (
        "shorter",
        "<zh_do><zh_it>(?:说|讲|写|回答|缩)?得?(?:再|更)?(?:简短|短|简洁|精简|简练|精炼|缩短"
        "|压缩|概括)<zh_end>",
    ),
    (
        "shorter",
        "<zh_do>(?:太长了|一句话(?:说|概括|总结|回答)?)[,，]?(?:<zh_it>)?(?:说|讲)?(?:短"
        "|简短|精简)?<zh_end>",
    ),
    (
        "table",
        "<zh_do><zh_it>(?:用|以|按|做成?|列成?|整理成?|画成?|改成|换成|变成|生成|弄成"
        ")?(?:一?[个张份]?)(?:表格|列表式表格|(?<=[个张成份])表)(?:的?(?:形式|方式|格式)"
        ")?(?:列出来|列一下|展示|显示|表示|呈现|回答|输出|整理|总结|说|来)*<zh_it><zh_end>",
    ),
    (
        "list",
        "<zh_do><zh_it>(?:用|以|按|列成?|整理成?|改成|换成|分成)(?:一?[个张份]?)(?:列表|清单"
        "|要点|几点|条目)(?:的?(?:形式|方式|格式))?(?:列出来|列一下|展示|显示|表示|呈现|回答"
        "|输出|整理|总结|说)*<zh_end>",
    ),
    (
        "list",
        "<zh_do><zh_it>(?:分点|逐条|分条)(?:列出|列|说|回答|整理|总结)?(?:来|出来)?<zh_end>",
    ),
    (
        "summary",
        "<zh_do>(?:总结|概括|归纳|回顾|小结|梳理|复述)(?:一下)?(?:<zh_talk>|<zh_it>)<zh_end>",
    ),
    (
        "summary",
        "<zh_do><zh_talk>(?:总结|概括|归纳|回顾|小结|梳理)<zh_end>",
    ),
    (
        "summary",
        "(?:我们|咱们|我)(?:刚才|刚刚|前面|之前|今天)?都?(?:聊|谈|讨论|说|问)(?:过|到|了"
        ")?(?:些|哪些)?什么(?:问题|内容)?",
    ),
    (
        "repeat",
        "<zh_do>(?:再|重新|重复)(?:说|讲|回答|重复|来|写)?(?:一[遍次下])<zh_it>?<zh_end>",
    ),
    (
        "repeat",
        "<zh_do>换(?:一?[个种])?(?:说法|方式|表达|角度)(?:说|讲|回答|解释)?(?:一[遍次下])?<zh_end>",
    ),
    (
        "translate",
        "(?:translate|put|convert|render) <en_it>?(?: ?(?:in)?to| in)? ?<en_lang><en_end>",
    ),
    (
        "translate",
        "(?:translate|can i get) <en_it><en_end>",
    ),
    (
        "translate",
        "(?:say|write|repeat|answer|explain|give me)(?: <en_it>)?(?: again)? in <en_lang><en_end>",
    ),
    (
        "translate",
        "(?:the same |same |now )?in <en_lang><en_end>",
    ),
    (
        "simpler",
        "(?:make|put|explain|say|phrase|rephrase|rewrite|simplify)(?: <en_it>)?(?: (?:more "
        ")?(?:simply|simple|simpler|easier|clearer|clearly)|(?: to understand)"
        "|(?: in (?:simple|simpler|plain|easier|layman's) (?:words|terms|language|english))"
        ")+<en_end>",
    ),
    (
        "simpler",
        "simplify(?: <en_it>)?<en_end>|(?:simpler|in simple (?:words|terms)|in plain english"
        ")<en_end>",
    ),
    (
        "shorter",
        "(?:make|keep|write|say|put|give me)(?: <en_it>)?(?: a)?(?: bit| little| much"
        ")? (?:shorter|short|briefer|brief|more concise|more briefly|concise)(?: version"
        ")?<en_end>",
    ),
    (
        "shorter",
        "(?:shorten|condense|trim|cut)(?: <en_it>)?<en_end>|(?:shorter|too long|tl;?dr"
        "|briefer)<en_end>",
    ),
    (
        "shorter",
        "(?:say|put|summarize|sum up)(?: <en_it>)? in (?:one|a single|two|a few) (?:sentence"
        "|word|line)s?<en_end>",
    ),
    (
        "table",
        "(?:(?:show|give|put|make|turn|format|present|write|list|convert|rewrite)(?: me"
        ")?(?: <en_it>)? )?(?:as|in|into|to|in the form of) (?:an? )?table(?: form| format"
        ")?<en_end>",
    ),
    (
        "table",
        "(?:make|give me|show me|create|draw) (?:an? )?table(?: of (?:<en_it>|<en_talk>)"
        "| out of <en_it>)?<en_end>",
    ),
    (
        "list",
        "(?:(?:show|give|put|make|turn|format|present|write|list|convert|rewrite)(?: me"
        ")?(?: <en_it>)? )?(?:as|in|into) (?:an? )?(?:bulleted |bullet |numbered )?(?:list"
        "|bullet points|bullets|points)<en_end>",
    ),
    (
        "summary",
        "(?:summarize|summarise|sum up|recap|review|wrap up|give me a (?:summary|recap) of"
        "|(?:a )?summary of)(?: (?:<en_talk>|<en_it>))?<en_end>",
    ),
    (
        "summary",
        "what (?:have we|did we|have i|did i) (?:talk(?:ed)? about|discuss(?:ed)?|cover(?:ed"
        ")?|say|said|ask(?:ed)?)(?: (?:so far|just now|today|before|above))?<en_end>",
    ),
    (
        "repeat",
        "(?:repeat|say|rephrase|reword|paraphrase|rewrite)(?: <en_it>)(?: (?:differently"
        "|in other words))?<en_end>",
    ),
    (
        "repeat",
        "(?:rephrase|reword|paraphrase|in other words|come again|once more|once again)<en_end>",
    ),
)
# More than POLITE of ``cues``: what carries a conversation on, and 能不能 before any verb.
_POLITE = re.compile(
    r"^(?:(?:请问?你?|麻烦你?|能不能|能否|可以|可不可以|你?能|帮我|帮忙|劳驾|那么?|好的?|谢谢)[,，]?"
    r"|(?:could|can|would|will) you(?: please| kindly)? |please |now |ok(?:ay)?,? |thanks,? |and "
    r"|i(?:'d| would) like (?:to have )?|so |just |great,? )+",
    re.I,
)
_END = re.compile(r"[\s。？！.?!~～]+$")
MAX_CHARACTERS = 80


def _pattern(spoken: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"<(\w\w_\w+)>", lambda match: _PARTS[match[1]], spoken), re.I)


_PATTERNS = tuple((kind, _pattern(spoken)) for kind, spoken in _SPOKEN)


@dataclass(frozen=True, slots=True)
class ConversationRequest:
    """What is asked of the answers before.

    ``kind`` is translate, simpler, shorter, table, list, repeat, or summary of all that was said.
    """

    kind: str


def parse_conversation_request(text: str) -> ConversationRequest | None:
    """Return what a message asks of the answers before it, None for a question of its own."""
    if len(text) > MAX_CHARACTERS:
        return None
    bare = " ".join(_END.sub("", to_simplified(text).strip()).split())
    for form in dict.fromkeys((bare, _POLITE.sub("", bare))):
        for kind, pattern in _PATTERNS:
            if form and pattern.fullmatch(form):
                return ConversationRequest(kind)
    return None
