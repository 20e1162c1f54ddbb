"""Questions about files: asked of a store's files themselves, or of a document that is named.

Inventory questions (how many, which, the newest) are taken where they plainly ask for files. A
document, page or section is named as people write it; which file that is is looked up elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from rag.stages.query.analyze import strip_politeness
from rag.stages.text.normalize import to_simplified

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
_STORE_END = re.compile(r"[\s。？！.?!吗呢啊呀]+$")


def _pattern(spoken: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"<(\w\w_\w+)>", lambda match: _PARTS[match[1]], spoken), re.I)


_PATTERNS = tuple((kind, _pattern(spoken)) for kind, spoken in _SPOKEN)


@dataclass(frozen=True, slots=True)
class StoreQuestion:
    """``kind`` is count, newest or list; ``topic`` is what the files are to be about, or empty."""

    kind: str
    topic: str = ""


def parse_store_question(text: str) -> StoreQuestion | None:
    """Return what a question asks about the files, None for one about their contents.

    The topic is in simplified characters.
    """
    if len(text) > 200:
        return None
    plain = to_simplified(text).strip()
    bare = " ".join(strip_politeness(_STORE_END.sub("", plain)).split())
    for kind, pattern in _PATTERNS:
        if match := pattern.fullmatch(bare):
            topic = match.groupdict().get("topic") or ""
            return StoreQuestion(kind, topic.strip(" 的\"'“”《》「」"))
    return None


MAX_CHARACTERS = 300
MAX_NAMES = 4
_EXTENSIONS = r"(?:pdf|docx?|pptx?|xlsx?|html?|epub|eml|md|csv|txt|wps|ofd|xmind|vsdx)"
_TITLE = re.compile(r"《([^《》]{1,100})》")
_FILE = re.compile(
    rf"[“\"「]([^“”\"「」\n]{{1,120}}\.{_EXTENSIONS})[”\"」]"
    rf"|([\w.()（）+-]{{1,100}}\.{_EXTENSIONS})(?![\w.])",
    re.I,
)
_HAN = re.compile(r"[\u3400-\u9fff]")
_HAN_DIGITS = {character: n for n, character in enumerate("零一二三四五六七八九")}
_N = r"(?:\d{1,4}|[一二三四五六七八九十百零两]{1,5})"
_PAGE = re.compile(
    rf"第\s*(?P<a>{_N})\s*(?:页(?:幻灯片)?|頁|张幻灯片|张ppt)"
    rf"|(?:幻灯片|ppt)\s*第?\s*(?P<b>\d{{1,4}})\s*[页张]?"
    r"|\b(?:page|slide|p\.)\s*(?P<c>\d{1,4})\b",
    re.I,
)
_SECTION = re.compile(
    rf"(?P<a>第\s*{_N}\s*(?:章|节|節|条|條|部分|篇))"
    rf"|(?P<b>(?<![\d.])\d{{1,3}}(?:\.\d{{1,3}}){{1,4}})\s*(?P<s>小?节|章|条)?"
    r"|(?P<c>附录\s*[A-Z\d一二三四五六])"
    r"|\b(?P<d>(?:section|chapter|clause|article|appendix|part)\s+(?:\d{1,3}(?:\.\d{1,3})*|[A-Z]\b|[IVX]+\b))",
    re.I,
)
# A section by its heading, which stands in quotation marks.
_QUOTED = r"[“\"「『]\s*(?P<{}>[^“”\"「」『』\n]{{2,60}}?)\s*[”\"」』]"
_HEADING = re.compile(
    _QUOTED.format("a")
    + r"\s*(?:这|那|该)?(?:一)?(?:小?节|章节?|部分)"
    + rf"|\b(?:section|chapter|part)\s+(?:called |titled |on )?{_QUOTED.format('b')}"
    + rf"|{_QUOTED.format('c')}\s+(?:section|chapter|part)\b",
    re.I,
)
# Beside a file it is enough to say what is asked about.
_ABOUT = re.compile(rf"(?:关于|有关|对于?|\babout|\bon|\bregarding)\s*{_QUOTED.format('a')}", re.I)
_SUMMARY = (
    re.compile(
        r"^(?:总结|概括|归纳|概述|小结|梳理|简述|介绍)(?:一下|下)?(?P<x>.{1,60}?)(?:这[份个篇]文[件档])?"
        r"(?:的?(?:主要|全部|核心|重点|大致)*(?:内容|要点|大意|意思|重点|思想)?)$"
    ),
    re.compile(
        r"^(?P<x>.{2,60}?)(?:这[份个篇]文[件档])?(?:里面?|中)?(?:主要|大致|大概|都)*(?:讲|说|写|介绍)"
        r"(?:了|的是|的)?(?:些|哪些)?(?:什么|啥)(?:内容|东西)?$"
    ),
    re.compile(
        r"^(?P<x>.{2,60}?)的(?:主要内容|大意|要点|内容概要|摘要|大纲|提纲|概要)(?:是什么|有哪些)?$"
    ),
    re.compile(
        r"^(?:summari[sz]e|sum up|outline|recap|give (?:me )?(?:an? )?(?:short |brief |quick )?"
        r"(?:summary|overview|outline)(?: of)?|(?:an? |the )?(?:summary|overview|outline) of)\s+"
        r"(?P<x>.{2,100}?)$",
        re.I,
    ),
    re.compile(r"^what(?:'s| is| are) (?P<x>.{2,100}?) (?:all )?about$", re.I),
    re.compile(r"^what does (?P<x>.{2,100}?) (?:say|cover|contain|deal with|describe)$", re.I),
)
_COMPARE = (
    re.compile(
        r"^(?:比较|对比|对照)(?:一下|下)?(?P<x>.{1,60}?)(?:和|与|跟|及|、)(?P<y>.{1,60}?)"
        r"(?:的?(?:区别|不同|差异|异同|内容))?$"
    ),
    re.compile(
        r"^(?P<x>.{1,60}?)(?:和|与|跟)(?P<y>.{1,60}?)(?:之间)?(?:有(?:什么|何|哪些)|的)"
        r"(?:区别|不同|差异|异同)"
        r"(?:是什么|有哪些|在哪里?)?$"
    ),
    re.compile(r"^compare (?P<x>.{1,100}?) (?:and|with|to|against) (?P<y>.{1,100}?)$", re.I),
    re.compile(
        r"^(?:what(?:'s| is| are) )?(?:the )?differences? between (?P<x>.{1,100}?)"
        r" and (?P<y>.{1,100}?)$",
        re.I,
    ),
)
# What a question about a place asks: all that is there.
_WHAT = re.compile(
    r"(?:讲|说|写|有|是|介绍|规定|列)(?:着|了|的是|的)?(?:些|哪些)?(?:什么|啥)|的?(?:主要)?内容|^(?:总结|概括|归纳|概述)"
    r"|^(?:what(?:'s| is| does| do| are)|summari[sz]e|sum up|outline|show|read)\b",
    re.I,
)
_OWNER_ZH = re.compile(
    r"^(?:在|看看?|打开|总结|概括|归纳|概述|一下)*(?P<x>.{0,60}?)(?:这[份个篇]文[件档])?(?:的|里面?|中|上)*$"
)
_OWNER_EN = re.compile(
    r"^\s*(?:of|in|from|on)\s+(?P<x>.{2,100}?)(?:\s+(?:say|cover|contain|about|mean))?$", re.I
)
_END = re.compile(r"[\s。？！.?!~～]+$")
# The last word of what is a document and nothing else.
_PAPER = re.compile(
    r"(?:说明书?|手册|指南|制度|规定|办法|规范|规程|协议|合同|报告|通知|方案|细则|章程|须知|文件|文档|资料|教程|白皮书|标准"
    r"|幻灯片|课件|讲义|纪要|计划|清单|条例|政策|论文|简历|附件|ppt)$"
    r"|\b(?:manuals?|handbooks?|guides?|reports?|polic(?:y|ies)|documents?|docs?|files?|papers?|contracts?|agreements?"
    r"|specifications?|specs?|presentations?|slides?|deck|minutes|notes|brochure|leaflet|regulations?|rules|terms"
    r"|instructions|plan|e-?mail|letter|statement|memo|spreadsheet|book|thesis|article|readme|faq)$",
    re.I,
)
_GENERIC = re.compile(
    r"^(?:一下|下|这|那|该|此|本|上述|以上|前面|刚才|我们|它|你|您|(?:the|this|that|these|those|it|all|your|our)\b\s*)*"
    r"(?:[份个篇些]?(?:文件|文档|资料|内容|回答|对话|文章)?|documents?|files?|text|answer|conversation|page|section)?$",
    re.I,
)


@dataclass(frozen=True, slots=True)
class DocumentQuestion:
    """What a question names: ``names`` of files, a ``page``, a ``section``, a ``heading``.

    ``kind`` is summary, compare, place (a page or section) or named (the file is only where to
    look). ``is_whole`` says that all of it is wanted. ``is_sure``: the name cannot be anything but
    a document's, so that it is told when there is none.
    """

    kind: str
    names: tuple[str, ...] = ()
    page: int | None = None
    section: str = ""
    heading: str = ""
    is_whole: bool = False
    is_sure: bool = False


def parse_document_question(text: str) -> DocumentQuestion | None:
    """Return what a question names of documents, None for one that names nothing of them.

    The names are as written.
    """
    if len(text) > MAX_CHARACTERS:
        return None
    written = " ".join(text.split())
    simplified = to_simplified(written)
    asked = _parse(strip_politeness(_END.sub("", simplified)))
    if asked is None or simplified == written:
        return asked
    places = [simplified.find(name) for name in asked.names]
    names = zip(places, asked.names, strict=True)
    return replace(
        asked,
        names=tuple(written[at : at + len(name)] if at >= 0 else name for at, name in names),
    )


def _parse(bare: str) -> DocumentQuestion | None:
    if found := _place(bare):
        return found
    for pattern in _COMPARE:
        if match := pattern.match(bare):
            names = tuple(filter(None, (_name(match["x"]), _name(match["y"]))))
            is_sure = all(map(_is_paper, (match["x"], match["y"])))
            if len(names) == 2:
                return DocumentQuestion("compare", names, is_whole=True, is_sure=is_sure)
    for pattern in _SUMMARY:
        if (match := pattern.match(bare)) and (name := _name(match["x"])):
            return DocumentQuestion(
                "summary", (name,), is_whole=True, is_sure=_is_paper(match["x"])
            )
    named = _named(bare)
    return DocumentQuestion("named", named) if named else None


def _place(text: str) -> DocumentQuestion | None:
    page, section = _PAGE.search(text), _SECTION.search(text)
    match = page or section
    if match is None:
        return _headed(text)
    named = _named(text)
    owner = _OWNER_EN.match(_END.sub("", text[match.end() :])) or _OWNER_ZH.match(
        text[: match.start()]
    )
    name = _name(owner["x"]) if owner and not named else ""
    if owner and name and (_HAN.search(name) or _is_paper(name) or owner.re is _OWNER_EN):
        named = (name,)
    whole = bool(_WHAT.search(text)) or match.group().strip() == text
    if not (named or whole):
        return None  # the fourth quarter of a game is a 第四节 too
    is_sure = bool(named) and (bool(_named(text)) or _is_paper(named[0]))
    number = _number(next(filter(None, page.groups()))) if page else None
    words = "" if page or not section else next(filter(None, (section[name] for name in "abcd")))
    if not page and section and section["b"] and not (section["s"] or is_sure):
        return None  # a version or a figure
    return DocumentQuestion(
        "place", named, number, " ".join(words.split()), is_whole=whole, is_sure=is_sure
    )


def _headed(text: str) -> DocumentQuestion | None:
    """Return the question about a section that is called by its heading."""
    named = _named(text)
    match = _HEADING.search(text) or (_ABOUT.search(text) if named else None)
    if match is None:
        return None
    heading = next(filter(None, match.groups()))
    if heading in named:
        return None
    return DocumentQuestion("place", named, heading=heading, is_whole=bool(_WHAT.search(text)))


def _named(text: str) -> tuple[str, ...]:
    titles = _TITLE.findall(text)
    files = [quoted or plain for quoted, plain in _FILE.findall(text)]
    return tuple(dict.fromkeys([*titles, *files]))[:MAX_NAMES]


def _name(text: str) -> str:
    """Return a name without marks, articles and words for documents; empty for a mere pointer."""
    if found := _named(text):
        return found[0]
    bare = text.strip(" “”\"「」《》'‘’,，")
    bare = re.sub(r"^(?:the|our|this|that)\s+", "", bare, flags=re.I)
    bare = re.sub(r"^(?:文件|文档)|(?:这|那)[份个篇](?:文件|文档)?$", "", bare).strip()
    return "" if _GENERIC.match(bare) or len(bare) > 100 else bare


def _is_paper(text: str) -> bool:
    return bool(_named(text)) or bool(_PAPER.search(text.strip(" “”\"「」'")))


def _number(text: str) -> int:
    if text.isdigit():
        return int(text)
    total, digit = 0, 0
    for character in text.replace("两", "二"):
        if character in "十百":
            total += (digit or 1) * (10 if character == "十" else 100)
            digit = 0
        else:
            digit = _HAN_DIGITS.get(character, 0)
    return total + digit


LINE_START = r"^[#\s]*"


def section_pattern(section: str) -> str:
    """Return a regular expression, Python's and PostgreSQL's, of a heading that begins a section.

    ``section`` is as a question names it: 3.2, 第三章, chapter 3, appendix A.
    """
    digits = re.search(r"\d[\d.]*|[一二三四五六七八九十百零两]+|[A-Z]$|[IVX]+$", section, re.I)
    value = digits.group().strip(".") if digits else section
    number = re.escape(value)
    forms = {number}
    if re.fullmatch(r"[一二三四五六七八九十百零两]+", value):
        forms.add(str(_number(value)))
    elif value.isdigit():
        forms.add(_in_han(int(value)))
    one = "(?:" + "|".join(sorted(forms)) + ")"
    if re.search(r"附录|appendix", section, re.I):
        return rf"{LINE_START}(?:附[录錄]|[Aa]ppendix|APPENDIX)\s*{one}"
    kind = section.strip()[-1]
    kinds = {"节": "[节節]", "条": "[条條]", "章": "章", "篇": "篇"}
    zh = rf"第\s*{one}\s*{kinds.get(to_simplified(kind), '(?:章|[节節]|[条條]|部分|篇)')}"
    en = rf"(?:[Cc]hapter|[Ss]ection|[Cc]lause|[Aa]rticle|[Pp]art|CHAPTER|SECTION)\s+{one}"
    return rf"{LINE_START}(?:{zh}|{en}(?![\d.]*\d)|{one}(?![\d.]*\d)[\s.、．:：])"


def _in_han(n: int) -> str:
    digits = "零一二三四五六七八九"
    if n < 10:
        return digits[n]
    if n >= 100:
        return str(n)
    tens, ones = divmod(n, 10)
    return f"{digits[tens] if tens > 1 else ''}十{digits[ones] if ones else ''}"
