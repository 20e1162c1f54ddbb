"""Query rewriting: the request that makes a follow-up standalone, and its answer parsed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.sax.saxutils import escape

from agents.core.prompts import prompt_file
from agents.core.state import Turn
from rag.core.types import Message

_POINTS_BACK = re.compile(
    r"^(?:那么?|那|还有|另外|然后|所以|此外|再说|接着)|[它他她]们?|这(?!里的?资料)(?:个(?!月|星期|季|年|周)|些|样|种|款|台|件|份|里|边)|"
    r"那(?:个|些|样|种|款|台|件|份|里|边)|其(?:中|他|它|余)?(?=[^实])|该(?!怎|如何|做)|上面|上述|前面|刚才|刚刚|之前说|同样|"
    r"(?:呢|咋办)[？?]?$|"
    r"\b(?:it|its|it's|they|them|their|theirs|he|him|his|she|her|hers|this|that|these|those|one|"
    r"ones|former|latter|same|above|previous|earlier)\b|"
    r"^(?:and|but|so|then|also|or|what about|how about|what else|why|why not|when|where|how much|"
    r"how many|how long|how)\W*$|^(?:and|but|so|then|also|what about|how about)\b",
    re.I,
)
_HAN = re.compile(r"[\u3400-\u9fff]")
_SHORT_HAN, _SHORT_WORDS = 5, 2
_LABEL = re.compile(
    r"^\s*(?:改写后?(?:的)?(?:问题|查询)?|问题|(?:rewritten )?(?:question|query))\s*[:：]\s*", re.I
)
MAX_CHARACTERS = 600
_SHOWN_CHARACTERS = 1200


def needs_rewrite(query: str, history: Sequence[Turn]) -> bool:
    """Return whether a question needs what was said before: it points back, or is a fragment."""
    if not any(turn["role"] == "user" for turn in history):
        return False
    text = query.strip()
    if _POINTS_BACK.search(text):
        return True
    if _HAN.search(text):
        return len(re.sub(r"[\W_]", "", text)) <= _SHORT_HAN
    return len(text.split()) <= _SHORT_WORDS


def rewrite_messages(query: str, history: Sequence[Turn]) -> list[Message]:
    """Return what a model is asked: the rules, and the conversation as data."""
    turns = "\n".join(
        f'<turn role="{turn["role"]}">{escape(turn["content"][:_SHOWN_CHARACTERS])}</turn>'
        for turn in history
    )
    language = "zh" if _HAN.search(query) else "en"
    data = f"<conversation>\n{turns}\n</conversation>\n<question>{escape(query)}</question>"
    return [Message("system", prompt_file(f"rewrite_{language}")), Message("user", data)]


def parse_rewritten(answer: str) -> str:
    """Return the question of an answer, empty when it holds none."""
    lines = [line.strip() for line in answer.strip().splitlines() if line.strip()]
    text = _LABEL.sub("", lines[0] if lines else "").strip("\"“”「」' ")
    return "" if len(text) > MAX_CHARACTERS or len(lines) > 3 else text
