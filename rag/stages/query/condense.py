"""Question condensation by rules: a follow-up made to stand alone, a node's input inferred."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rag.stages.prompting.templates import META
from rag.stages.query.file_question import parse_document_question
from rag.stages.query.subject import Phrase, Token, content_phrases, leading_nouns, tokens_of
from rag.stages.text.normalize import to_simplified
from rag.stages.text.simplified import to_traditional
from rag.stages.text.terms import is_han

# So many questions are read back; who has left a subject out for longer has to name it again.
MAX_EARLIER = 40
_MAX_TOPIC = 120
_PRONOUN = re.compile(
    r"它们?|他们?|她们?|(?:这|那)(?:个|款|台|种|件|份|样)(?![\u3400-\u9fff]{2})|其(?=[^实中他余它])"
    r"|该(?=[\u3400-\u9fff])(?!怎|如何|做|不该|注意)"
    r"|(?<!['’])\b(?:it|its|they|them|their|this one|that one|these|those|"
    r"(?:(?<=^)|(?<=\bis )|(?<=\bare )|(?<=\bdoes )|(?<=\bdo )|(?<=\bcan )|(?<=\bwill )|(?<=\bwas )"
    r"|(?<=\babout )|(?<=\bof )|(?<=\bfor )|(?<=\bwith )|(?<=\bto )|(?<=\bby )|(?<=\blike ))"
    r"(?:this|that))\b(?!['’]s\b)",
    re.I,
)
# "This contract": the noun says which thing of those before is meant.
_POINTER = (
    r"(?:这|那|该)[一种个张份款台件项座家条本只]{{0,2}}(?P<kind>{word}|{kind})"
    r"|\b(?:this|that|these|those|the same) (?P<noun>{word})\b"
)
_LEAD = re.compile(r"^(?:那么?|还有|另外|然后|and|but|so|then|also)[\s，,]*", re.I)
_BREAK = re.compile(
    r"^(?:换个(?:话题|问题)|(?:问)?另(?:外)?一个问题|说点别的|不说这个了?|顺便问(?:一下|个别的)"
    r"|(?:another|different|new|unrelated) (?:question|topic|subject)|change of (?:topic|subject)"
    r"|on (?:another|a different) (?:note|topic)|by the way)[\s，,：:。.\-–—]*",
    re.I,
)
_PARALLEL = re.compile(
    r"^(?:那么?|还有|至于|换成|换做|如果是|要是|改成|同样)?\s*(?P<zh>[^，,。？?！!]{1,24}?)(?:的话)?"
    r"(?:呢|又如何|又怎么样|怎么样呢)\s*[?？]?$"
    r"|^(?:(?:and|or)(?: what about| how about)?|what about|how about|same (?:question )?for)\s+"
    r"(?:(?:in|on|for|with|at|of|to)\s+)?(?P<en>[^,.?!]{1,60}?)(?: then| instead)?\s*[?？]*$",
    re.I,
)
_ASKS = re.compile(
    r"什么|怎么|如何|多少|多[久长大高]|哪|谁|几|吗|能不能|是否"
    r"|\b(?:what|how|which|who|whom|whose|why|when|where|is|are|was|were|do|does|did|can|could|will"
    r"|would|should|must|may|has|have)\b",
    re.I,
)
_ARTICLE = re.compile(r"^(?:the|its|their|his|her)\s+", re.I)


@dataclass(frozen=True, slots=True)
class _Topic:
    """What is talked about: ``phrases`` of it, the last question as it stands alone.

    ``focus`` is what the last question was about beside them.
    """

    phrases: tuple[str, ...] = ()
    head: str = ""
    question: str = ""
    focus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CondensedQuestion:
    """A question that stands alone, and how it came to.

    ``none``: it stood alone. ``entity``: a pronoun gave way to its thing. ``parallel``: another
    thing took the place of one in the question before. ``subject``: what is talked about is put
    in front. ``joined``: it stands behind the question before, itself made to stand alone.
    """

    text: str
    method: str


def condense_question(query: str, earlier: Sequence[str]) -> CondensedQuestion:
    """Return a question that stands alone after ``earlier`` questions, oldest first.

    The subject is carried over several turns; a question that brings its own drops it.
    """
    topic = _Topic()
    for said in earlier[-MAX_EARLIER:]:
        if said.strip():
            _, topic = _condensed(to_simplified(said.strip()), topic)
    written = query.strip()
    simplified = to_simplified(written)
    condensed, _ = _condensed(simplified, topic)
    if condensed.method == "none":
        # Nothing but words before it went.
        return replace(condensed, text=written[len(written) - len(condensed.text) :])
    if simplified == written:
        return condensed
    return replace(condensed, text=to_traditional(condensed.text))


def question_subject(query: str) -> str:
    """Return what a question is about, empty where its words say nothing of it."""
    return " ".join(phrase.text for phrase in content_phrases(query))


def _condensed(query: str, topic: _Topic) -> tuple[CondensedQuestion, _Topic]:
    fresh = _BREAK.sub("", query, count=1)
    if not topic.phrases or (fresh != query and fresh):
        return CondensedQuestion(fresh or query, "none"), _topic_of(fresh or query, topic)
    if found := _PARALLEL.match(query):
        other = (found["zh"] or found["en"]).strip().removesuffix("的")
        if other and not _ASKS.search(other) and not _PRONOUN.search(other):
            return _beside(other, query, topic)
    if found := _pointed(query, topic) or _PRONOUN.search(query):
        return _with_entity(query, found, topic)
    if _stands_alone(query, topic):
        return CondensedQuestion(query, "none"), _topic_of(query, topic)
    bare = _LEAD.sub("", query, count=1).strip() or query
    own = [phrase.text for phrase in content_phrases(query)]
    if not content_phrases(query, has_relations=True):
        text = f"{topic.question} {query}"
        return CondensedQuestion(text, "joined"), topic
    text = _in_front([*topic.phrases, *(() if own else topic.focus)], bare)
    after = replace(topic, question=text, focus=tuple(own) or topic.focus)
    return CondensedQuestion(text, "subject"), after


def _topic_of(query: str, before: _Topic) -> _Topic:
    """Return the topic that a question opens; one without content goes on with that before."""
    phrases = content_phrases(query)
    if not phrases:
        return before if before.phrases else _Topic(question=query)
    return _Topic(_bounded(phrase.text for phrase in phrases), _head(phrases), query)


def _bounded(phrases: Any) -> tuple[str, ...]:
    kept: list[str] = []
    for phrase in phrases:
        if sum(map(len, kept)) + len(phrase) <= _MAX_TOPIC:
            kept.append(phrase)
    return tuple(dict.fromkeys(kept))


def _head(phrases: Sequence[Phrase]) -> str:
    """Return the name that is asked about, or the first phrase."""
    named = next((phrase for phrase in phrases if phrase.is_name), None)
    if named is None:
        owner = next((phrase for phrase in phrases if phrase.is_owner), phrases[0])
        # What is done with a thing stands behind it: the pump serviced.
        return re.sub(r"(?<=\w)(?: \w+(?:ed|ing))+$", "", owner.text)
    names = [token for token in named.tokens if token.is_name]
    start = named.tokens[0].start
    return named.text[names[0].start - start : names[-1].end - start]


def _in_front(phrases: Sequence[str], query: str) -> str:
    folded = query.casefold()
    lacking = [phrase for phrase in phrases if phrase.casefold() not in folded]
    if not lacking:
        return query
    joint = "：" if is_han(query) else ": "
    return f"{' '.join(dict.fromkeys(lacking))}{joint}{query}"


def _beside(other: str, query: str, topic: _Topic) -> tuple[CondensedQuestion, _Topic]:
    """Return the last question about something else, or about something else of the same thing."""
    tokens = tokens_of(other)
    target = _like(tokens, topic)
    is_part = bool(_ARTICLE.match(other)) or bool(tokens and tokens[-1].needs_owner)
    if not target and is_part:
        text = _in_front(topic.phrases, _LEAD.sub("", query, count=1))
        return CondensedQuestion(text, "subject"), replace(topic, question=text, focus=(other,))
    other = _ARTICLE.sub("", re.sub(r"^an?\s+", "", other, flags=re.I))
    target = target or topic.head
    phrases = tuple(phrase.replace(target, other) for phrase in topic.phrases)
    asked = topic.question.replace(target, other)
    if asked == topic.question:
        asked = f"{other} {asked}"
    if other not in " ".join(phrases):
        phrases = (other, *phrases)
    after = _Topic(phrases, other, asked, topic.focus)
    return CondensedQuestion(asked, "parallel"), after


def _like(tokens: Sequence[Token], topic: _Topic) -> str:
    """Return what of the topic is of the kind of ``tokens``: it ends alike, or is a name too."""
    if not tokens:
        return ""
    last = tokens[-1]
    for phrase in topic.phrases:
        for known in tokens_of(phrase):
            if known.folded == last.folded and len(tokens) > 1:
                if known.is_name and topic.head in phrase:
                    return topic.head
                return phrase if len(tokens_of(phrase)) <= len(tokens) + 1 else known.word
            if is_han(last.word) and known.word[-1] == last.word[-1] and known.word != last.word:
                return phrase if len(phrase) <= len(last.word) + 1 else known.word
    return topic.head if any(token.is_name for token in tokens) else ""


def _pointed(query: str, topic: _Topic) -> re.Match[str] | None:
    """Return where a question points at a thing by its kind, such as 这种合同."""
    for phrase in topic.phrases:
        for token in tokens_of(phrase)[::-1]:
            kind = re.escape(token.word[-1] if is_han(token.word) else token.word)
            word = re.escape(token.word)
            if match := re.search(_POINTER.format(kind=kind, word=word), query, re.I):
                return match
    return None


def _with_entity(
    query: str, found: re.Match[str], topic: _Topic
) -> tuple[CondensedQuestion, _Topic]:
    word = found.group()
    kind = next((text for text in found.groupdict().values() if text), "").casefold()
    thing = next((one for one in topic.phrases if kind and kind in one.casefold()), topic.head)
    if word == "其":
        put = f"{thing}的"
    else:
        put = f"{thing}'s" if word.lower() in ("its", "their") else thing
    text = query[: found.start()] + put + query[found.end() :]
    text = _LEAD.sub("", text, count=1).strip()
    text = _in_front([topic.head] if kind else [], text)
    own = tuple(phrase.text for phrase in content_phrases(query))
    return CondensedQuestion(text, "entity"), replace(topic, question=text, focus=own)


_OPENS = re.compile(r"^(?:请问|那么?|在|我们?的?|咱们?的?)+")
_HOW_TO = re.compile(
    r"^(?:how|where|why) (?:do|does|can|could|should|would) (?:i|we|you|one|my)\b", re.I
)
# A shorter noun is more often a part of what was asked about: 轴承, 押金.
_LONG_NOUN = 3


def _stands_alone(query: str, topic: _Topic) -> bool:
    """Return whether a question brings a subject of its own."""
    named = parse_document_question(query)
    if named is not None and named.names and (named.is_sure or named.kind == "named"):
        return True
    phrases = content_phrases(query)
    known = " ".join((*topic.phrases, topic.question)).casefold()
    fresh = [phrase for phrase in phrases if phrase.text.casefold() not in known]
    if not fresh:
        return False
    if is_han(query):
        return _alone_in_chinese(query, fresh[0])
    tokens = [token for phrase in fresh for token in phrase.tokens]
    if any(token.is_proper and token.folded not in known for token in tokens):
        return True
    before = query[: fresh[0].tokens[0].start].casefold().split()
    if _HOW_TO.match(query):
        return len(tokens) >= 3 and before[-1:] != ["the"]
    return fresh[0].is_owner and len(fresh) == len(phrases) and before[-1:] == ["of"]


def _alone_in_chinese(query: str, first: Phrase) -> bool:
    """Return whether a question begins with a thing of its own: 公积金贷款的额度, 会议室."""
    if _OPENS.sub("", query[: first.tokens[0].start]):
        return False
    if first.tokens[0].is_name:
        return True
    rest = query[first.tokens[-1].end :]
    nouns = leading_nouns(first.text)
    if not nouns or any(token.needs_owner for token in first.tokens):
        return False
    return len(nouns) >= _LONG_NOUN or (rest.startswith("的") and len(nouns) > 1)


# What nodes call the words that people or models wrote, likeliest first.
FIELDS = (
    "user_input",
    "query",
    "question",
    "input",
    "message",
    "prompt",
    "text",
    "content",
    "output",
    "response",
    "answer",
    "result",
)


def infer_question(context: Mapping[str, Any]) -> str:
    """Return the text of the nearest node upstream that has one, empty when none has.

    ``context`` maps nodes, in the order in which they ran, to outputs. Of an output with several
    texts the likeliest field is taken; addresses are none.
    """
    for node, output in reversed(list(context.items())):
        if node != META and (text := _text_of(output)):
            return text
    return ""


def _text_of(output: Any) -> str:
    if isinstance(output, str):
        return output.strip()
    if not isinstance(output, Mapping):
        return ""
    for name in (*FIELDS, *output):
        value = output.get(name)
        if isinstance(value, str) and value.strip() and not _is_address(value):
            return value.strip()
    return ""


def _is_address(value: str) -> bool:
    return value.strip().startswith(("http://", "https://", "data:")) and " " not in value.strip()
