"""Inventory questions: what a question asks about the files of a store themselves, if it does.

Only what is plainly asked of files is taken; everything else is a question to their contents.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rag.stages.query.analyze import strip_politeness

# Parts of the patterns below, by name.
_PARTS = {
    "zh_files": "(?:文件|文档|资料|文章|档案)",
    "zh_topic": "(?:(?:关于|有关|涉及|提到|包含|讲)(?P<topic>[^，。？！,?!]{1,40}?)"
    "(?:的|方面的|相关的)?)",
    "zh_here": "(?:(?:这个|该|你的)?(?:知识库|库|系统|资料库|文档库)(?:里面?|中|内|目前|现在)*)?",
    "zh_all": "(?:一共|总共|共)?",
    "zh_unit": "(?:个|份|篇|条)?",
    "en_files": "(?:files?|documents?|docs?|papers?)",
    "en_about": "(?:about|on|regarding|concerning|that mention|mentioning|containing)",
    "en_here": "(?: (?:here|in (?:the|this) (?:store|knowledge base)))?",
    "en_have": "(?:(?:do|can) (?:you|we) (?:have|know|search)|are there|are (?:stored|here)"
    "|does (?:it|the (?:store|knowledge base)) have)",
    "en_new": "(?:newest|latest|most recent|last(?:ly)? (?:added|uploaded))",
}
_SPOKEN = (
    ("count", "<zh_here><zh_all>(?:有|存|收录)了?多少<zh_unit><zh_topic>?<zh_files>"),
    ("count", "<zh_here><zh_topic>?<zh_files><zh_all>有(?:多少|几)<zh_unit>"),
    ("count", "<zh_here><zh_all>有几<zh_unit><zh_topic>?<zh_files>"),
    (
        "count",
        "how many <en_files>(?: <en_have>)?<en_here>"
        "(?: <en_about> (?P<topic>.{1,80}?)(?: <en_have>)?<en_here>)?",
    ),
    (
        "newest",
        "<zh_here>(?:最新|最近)(?:上传|更新|添加|加入|入库)?的?(?:一|几)?<zh_unit><zh_files>"
        "(?:是|有|叫)?(?:哪个|哪份|哪篇|哪些|什么)?",
    ),
    ("newest", "<zh_here>(?:哪个|哪份|哪篇)<zh_files>是?最新的?"),
    ("newest", "(?:what|which)(?: is|'s| are)? (?:the |your )?<en_new> <en_files><en_here>"),
    (
        "newest",
        "which <en_files> (?:is|are|was|were) (?:the )?(?:<en_new>|(?:added|uploaded) last)",
    ),
    ("list", "<zh_here>都?有(?:哪些|什么)<zh_files>"),
    ("list", "(?:列出|显示)(?:所有|全部)?的?<zh_files>(?:列表|清单)?"),
    ("list", "(?:which|what) <en_files> <en_have><en_here>"),
    ("list", "list (?:all |the |your )*<en_files><en_here>"),
)
_END = re.compile(r"[\s。？！.?!吗呢啊呀]+$")


def _pattern(spoken: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"<(\w\w_\w+)>", lambda match: _PARTS[match[1]], spoken), re.I)


_PATTERNS = tuple((kind, _pattern(spoken)) for kind, spoken in _SPOKEN)


@dataclass(frozen=True, slots=True)
class StoreQuestion:
    """``kind`` is count, newest or list; ``topic`` is what the files are to be about, or empty."""

    kind: str
    topic: str = ""


def parse_store_question(text: str) -> StoreQuestion | None:
    """Return what a question asks about the files, None for one about their contents."""
    if len(text) > 200:
        return None
    bare = " ".join(strip_politeness(_END.sub("", text.strip())).split())
    for kind, pattern in _PATTERNS:
        if match := pattern.fullmatch(bare):
            topic = match.groupdict().get("topic") or ""
            return StoreQuestion(kind, topic.strip(" 的\"'“”《》「」"))
    return None
