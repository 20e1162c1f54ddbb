"""Abstention: what is said where the documents may not answer, in the question's language."""

from __future__ import annotations

from rag.core.analysis import Answerability
from rag.stages.text.terms import is_han

_MISSING = {True: "这些文档中没有出现 {text}。", False: "{text} does not occur in these documents."}
_NEAREST = {
    True: "这些文档中没有出现 {text}；最接近的是 {nearest}。",
    False: "{text} does not occur in these documents; the nearest is {nearest}.",
}
_DOUBT = {
    True: "找到的内容可能没有回答这个问题，请核对引用。",
    False: "What was found may not answer this question: check the sources.",
}
_REFUSAL = {
    "off_topic": {True: "没有找到相关内容。", False: "Nothing relevant was found."},
    "doubtful": {
        True: "这些文档中没有找到这个问题的答案。",
        False: "No answer to this was found in these documents.",
    },
}
_BELOW = {
    True: "另有 {n} 条结果低于相似度阈值，未予采用。",
    False: "Results below the thresholds were left out: {n}.",
}
_GAP = {True: "", False: " "}


def missing_text(question: str, judged: Answerability | None) -> str:
    """Return which things of the question no document mentions, and what comes nearest."""
    is_chinese = is_han(question)
    told = [
        (_NEAREST if one.nearest else _MISSING)[is_chinese].format(
            text=one.text, nearest=one.nearest
        )
        for one in (judged.missing if judged else ())
    ]
    return _GAP[is_chinese].join(told)


def doubt_notice(question: str, judged: Answerability | None) -> str:
    """Return what stands beside an answer that its sources may not hold; empty without doubt."""
    if judged is None or judged.verdict == "answerable":
        return ""
    return missing_text(question, judged) or _DOUBT[is_han(question)]


def refusal_text(question: str, judged: Answerability, n_below: int = 0) -> str:
    """Return what is said instead of an answer that is refused.

    ``n_below`` results fell below thresholds.
    """
    is_chinese = is_han(question)
    below = _BELOW[is_chinese].format(n=n_below) if n_below else ""
    told = [_REFUSAL[judged.verdict][is_chinese], missing_text(question, judged), below]
    return _GAP[is_chinese].join(filter(None, told))
