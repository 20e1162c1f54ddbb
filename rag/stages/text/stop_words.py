"""Stop words of both languages: words that ask, join and point, and say nothing of a subject."""

from __future__ import annotations

import re

_WORDS = (
    "的 了 是 在 和 与 及 或 之 也 于 以 而 被 把 将 对 从 到 由 就 都 又 还 并 很 更 最 不 有 这"
    " 那 一 个 中 上 下 等 所 吗 呢"
    " 吧 啊 呀 嘛 么 着 过 得 地 给 让 向 往 请 我 你 您 他 她 它 们 该 各 每 某 其 此 能 会 要 想"
    " 可 应 须 用 为 因 但 若 如 则"
    " 什么 怎么 怎样 如何 为什么 为何 多少 多大 多长 多久 多高 哪 哪个 哪些 哪里 哪儿 哪年 几 谁"
    " 何时 是否 能否 可以 可否 能够"
    " 应该 需要 我们 你们 他们 它们 自己 这个 那个 这些 那些 这样 那样 一下 一个 一些 一种 有些"
    " 有的 没有 有没有 是不是 能不能"
    " 请问 麻烦 帮我 帮忙 告诉 知道 想要 关于 对于 以及 并且 而且 或者 还是 但是 因为 所以 如果"
    " 的话 时候 之后 以后 之前 以前"
    " 其中 进行 通过 根据 按照 介绍 列出 总结 解释 说明 比较 对比 区别 有关 相关 主要 哪种 哪位"
    " 什么样 是什么 有什么 怎么办 怎么样 多长时间 才 才能 再 只 却 便 且 时 后 前 里 以内"
    " 以上 以下 之内 必须 还要 就是 不是"
    " a an the this that these those and or but nor of in on at to for from by with about into"
    " over under between"
    " as is are was were be been being am do does did done can could will would shall should may"
    " might must has"
    " have had having i me my we us our you your he him his she her it its they them their who"
    " whom whose which"
    " what when where why how if than then so such not no yes any some all each every please there"
    " here also just"
    " only very too more most much many what's it's i'm i'd who's let's don't doesn't didn't won't"
    " can't tell show"
    " give find list explain describe compare summarize get got want need know like look looking"
    " up out s t after before during until till while because since although though again within"
    " without through both same own once ever per via upon off onto along across among how's"
)
STOP_WORDS = frozenset(_WORDS.split())
# "How long" asks; it says nothing of something long.
ASKING_HOW = re.compile(
    r"\bhow (?:long|old|far|often|big|tall|high|deep|wide|heavy|fast|large|soon|late|early)\b", re.I
)
# An article at the end names something: hepatitis A, appendix A.
_NAMED_A = re.compile(r"(?<=\w )A\s*(?:[?？.!。,，]|$)")


def is_stop_word(text: str, start: int, end: int) -> bool:
    """Return whether ``text[start:end]`` is a stop word; names in capitals (IT, WHO) are none."""
    word = text[start:end]
    is_name = len(word) > 1 and word.isupper() and not text.isupper()
    if is_name or (word == "A" and _NAMED_A.match(text, start)):
        return False
    return word.casefold().replace("’", "'") in STOP_WORDS
