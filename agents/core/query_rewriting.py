"""Query rewriting: the request that makes a follow-up standalone, its answer parsed and judged."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from xml.sax.saxutils import escape

from agents.core.prompts import prompt_file
from agents.core.state import Turn
from rag.core.types import Message
from rag.stages.query.condense import CondensedQuestion
from rag.stages.query.subject import Token, tokens_of

_HAN = re.compile(r"[\u3400-\u9fff]")
MAX_CHARACTERS = 600
# Whoever wrote more was not asked for it; what it means stands at its beginning.
_MAX_ANSWER, _MAX_LINES = 4000, 3
_SHOWN_CHARACTERS = 1200


def rewrite_messages(query: str, history: Sequence[Turn]) -> list[Message]:
    """Return what a model is asked: the rules, and the conversation as data."""
    turns = "\n".join(
        f'<turn role="{turn["role"]}">{escape(turn["content"][:_SHOWN_CHARACTERS])}</turn>'
        for turn in history
    )
    language = "zh" if _HAN.search(query) else "en"
    data = f"<conversation>\n{turns}\n</conversation>\n<question>{escape(query)}</question>"
    return [Message("system", prompt_file(f"rewrite_{language}")), Message("user", data)]


_FENCE = re.compile(r"```[\w-]*\s*\n?(.*?)(?:```|\Z)", re.S)
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.S | re.I)
_ELEMENT = re.compile(r"</?(?:question|query|rewritten|answer|output)>", re.I)
_DRESS = re.compile(r"^(?:[>#\-*•]+\s+|\d{1,2}[.)、]\s+)|\*\*|__|`")
_QUOTES = "\"“”「」『』' ‘’＂"
_SURE = (
    r"(?:sure(?: thing)?|certainly|of course|ok(?:ay)?|absolutely|alright|got it|no problem"
    r"|i (?:understand|see)|happy to help|好的?|当然(?:可以)?|没问题|可以|明白了?|收到)"
)
_NAMED = (
    r"(?:question|query|version|rewrite|rewriting|form"
    r"|问题|查询|提问|问句|版本|结果|句子|如下|为|是)"
)
# «Sure! Here is the rewritten question:», «改写后的问题如下：»; what follows is the question.
_LEAD = re.compile(
    rf"^(?:{_SURE}[\s,，.。!！~～]*)?"
    r"(?:(?:here(?:'s| is| are| you go)|this is|below is|以下是?|下面是?|这是)[^:：?？]{0,60}"
    rf"|(?:(?:the|my|your|a) )?(?:(?:re-?written|re-?phrased|stand-?alone|standalone|self-contained"
    rf"|final|new|revised|improved|clarified) ){{1,3}}{_NAMED}(?: is| would be)?"
    rf"|(?:question|query|answer|output|result|rewrite|rewritten|问题|查询|答案|输出|结果)"
    rf"|(?:您|你|用户)?的?(?:问题|查询|提问)?(?:可以|应|已)?(?:被)?(?:改写|重写|改成|重新表述)"
    rf"(?:之?后)?(?:的|得到的)?(?:完整的?|独立的?)?{_NAMED}*(?:如下)?)"
    rf"\s*[:：]\s*",
    re.I,
)
_ONLY_POLITE = re.compile(rf"^{_SURE}[\s,，.。!！~～:：]*$", re.I)
_AFTERWORD = re.compile(
    r"^(?:\(?(?:note|explanation|reason(?:ing)?|i hope|hope (?:this|that)|let me know"
    r"|this (?:question|rewrite|version)|the (?:pronoun|word)|feel free|is there)\b"
    r"|[（(]?(?:注|说明|解释|理由|备注)\s*[:：]|希望(?:这|能|对|可以)|如果您|如有其他|还有其他)",
    re.I,
)


def parse_rewritten(answer: str) -> str:
    """Return the question of an answer, empty when it holds none.

    What a chatty model puts around it is left out: politeness, labels, fences, quotation marks,
    JSON, thoughts and explanations.
    """
    text = _THOUGHT.sub("", answer[:_MAX_ANSWER]).strip()
    if len(answer) > _MAX_ANSWER:
        return ""
    if fenced := _FENCE.search(text):
        text = fenced[1]
    text = _from_json(text) or text
    lines = [_undressed(line) for line in _ELEMENT.sub("\n", text).splitlines()]
    kept = [line for line in lines if line and not _AFTERWORD.match(line)]
    if len(kept) > _MAX_LINES:
        kept = [line for line in kept if line.endswith(("?", "？"))][:1]
    text = next((line for line in kept if line.endswith(("?", "？"))), kept[0] if kept else "")
    return "" if len(text) > MAX_CHARACTERS else text


def _undressed(line: str) -> str:
    bare = line.strip()
    for _ in range(4):
        before = bare
        bare = _LEAD.sub("", _DRESS.sub("", bare), count=1).strip()
        if len(bare) > 1 and bare[0] in _QUOTES and bare[-1] in _QUOTES:
            bare = bare.strip(_QUOTES)
        bare = bare.strip()
        if bare == before:
            break
    polite = re.match(rf"^{_SURE}[,，.。!！~～]+\s*", bare, re.I)
    if polite and bare[polite.end() :].strip():
        bare = bare[polite.end() :].strip()
    return "" if _ONLY_POLITE.match(bare) or bare.endswith((":", "：")) else bare.strip(_QUOTES)


def _from_json(text: str) -> str:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    values = list(found.values()) if isinstance(found, dict) else [found]
    return values[0] if len(values) == 1 and isinstance(values[0], str) else ""


def rewrite_fault(
    rewritten: str, query: str, history: Sequence[Turn], condensed: CondensedQuestion
) -> str:
    """Return why a model's question is not taken: ``empty``, ``repeated`` or ``lost``; or nothing.

    ``repeated``: it is a question of before. ``lost``: it has nothing of what was asked, or still
    lacks what it is about. ``condensed`` is what the rules make of it.
    """
    if not rewritten:
        return "empty"
    asked = {_plain(turn["content"]) for turn in history if turn["role"] == "user"}
    if _plain(rewritten) in asked - {_plain(query)}:
        return "repeated"
    if bool(_HAN.search(query)) != bool(_HAN.search(rewritten)):
        return ""  # Words of one language say nothing of those of another.
    folded = rewritten.casefold()
    names = [token for token in tokens_of(query) if token.is_name]
    things = [token for token in tokens_of(query) if _is_thing(token)]
    if any(name.folded not in folded for name in names):
        return "lost"
    if len(things) >= 2 and not any(thing.folded in folded for thing in things):
        return "lost"
    # What stands in the question alone cannot say what it leans on.
    said = " ".join(turn["content"] for turn in history[-_READ:]).casefold()
    put = {token.folded for token in tokens_of(rewritten) if token.has_content}
    if any(word in said and word not in query.casefold() for word in put):
        return ""
    leans = condensed.method in ("entity", "joined", "parallel") or not things
    return "lost" if leans and condensed.method != "none" else ""


_READ = 24


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text).casefold())


def _is_thing(token: Token) -> bool:
    """Return whether a word names a thing, and not what any thing has."""
    return token.has_content and not token.needs_owner and len(token.word) > 1
