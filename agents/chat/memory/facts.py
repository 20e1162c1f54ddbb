"""What is worth remembering of an exchange: facts, found by rules or by a model, and an episode.

A key keeps one memory per subject. Only what the person said is read, never an answer or a
document: nothing that a document claims can become a memory. What looks like a secret is not kept.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.core.parse_output import find_json_objects
from agents.core.prompts import prompt_file
from rag.stages.prompting.context import escape_data, quote_attribute
from rag.stages.text.normalize import storable_text
from rag.stages.text.secrets import mentions_secret

HAN = re.compile(r"[\u3400-\u9fff]")
MAX_CHARACTERS = 200


def memory_key(text: str) -> str:
    """Return the words of a text, folded; of a long one a digest; empty when it has no words."""
    folded = unicodedata.normalize("NFKC", storable_text(text)).casefold()
    words = " ".join(re.findall(r"\w+", folded))
    if len(words) <= MAX_CHARACTERS:
        return words
    return hashlib.sha256(words.encode()).hexdigest()


MAX_FACTS, MAX_FACT_CHARACTERS = 5, 300
_SENTENCE = re.compile(r"(?:[^。！？!?；;\n.]|\.(?=\S))+[。！？!?；;\n.]?")
_QUESTION = re.compile(
    r"[?？]|[吗呢]$|什么|怎么|怎样|如何|多少|多久|多大|哪|谁|几[个天次]|是否|能不能|可不可以|为何|"
    r"^(?:what|how|which|who|whose|when|where|why|can|could|do|does|did|is|are|will|would|should|"
    r"shall|may|have|has|tell me|show me|explain|find)\b",
    re.I,
)
_ASKS_TO_KEEP = re.compile(
    r"^(?:请?(?:[你您])?(?:帮我)?(?:记住|记下|记一下|牢记|别忘了?|不要忘记)(?:一下)?[:：,，\s]*|"
    r"(?:please\s+)?(?:remember|note|keep in mind|don'?t forget)(?:\s+that)?[:,\s]+)",
    re.I,
)
_OF_ONESELF = re.compile(r"我|咱|本人|\b(?:i|i'm|i've|my|mine|we|we're|our|ours|us|me)\b", re.I)
# Where a name is given, it is the subject; else what stands at “s”, else the whole sentence.
_TELLS: tuple[tuple[str, str], ...] = (
    (
        r"我(?:的名字)?(?:是)?叫|我的(?:名字|姓名)(?:是|叫)|(?:my name is|call me|i am called)\s",
        "name",
    ),
    (
        r"我们?(?:现在|目前)?(?:的)?(?P<s>[^，,是为]{1,20}?)(?:现在|目前|已经)?"
        r"(?:是|为|改成|换成|变成)",
        "",
    ),
    (r"(?:my|our)\s+(?P<s>[\w' -]{1,40}?)\s+(?:is|are|was|will be)\s+\S", ""),
    (r"我们?(?:现在|目前)?(?P<s>住|在|来自|负责|从事|担任)", ""),
    (
        r"(?:i|we)(?:'m| am| are|'re)?\s+(?:now\s+)?"
        r"(?P<s>(?:live|work(?:ing)?|based|responsible)(?:\s+(?:in|at|for|as|on))?)\b",
        "",
    ),
    (r"我们?(?:一般|通常|平时|更|比较|都|不|只)*(?:用|使用|采用|喜欢|偏好|习惯|讨厌)", ""),
    (
        r"(?:i|we)\s+(?:usually\s|always\s|really\s|only\s|do not\s|don'?t\s|no longer\s)?\s*"
        r"(?:use|prefer|like|love|hate|manage|run|own)\b",
        "",
    ),
    (r"(?:i am|i'm|we are|we're)\s+(?:an?|the|from)\b|我是", "self"),
)
_RULES = tuple((re.compile(f"^(?:{pattern})", re.I), name) for pattern, name in _TELLS)
_NO_SUBJECTS = frozenset({"question", "problem", "问题", "意思", "疑问", "想法", "觉得", "认为"})


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact and what it is about; ``replaces`` are numbers of known facts that it outdates."""

    subject: str
    text: str
    replaces: tuple[int, ...] = ()


def states_fact(text: str) -> bool:
    """Return whether a message states anything about who wrote it, and does not only ask."""
    return any(
        _ASKS_TO_KEEP.search(one) or (_OF_ONESELF.search(one) and not _QUESTION.search(one))
        for one in _sentences(text)
    )


def extract_facts(text: str) -> list[Fact]:
    """Return what a message says outright: “my pump is an HX-400”, «记住…»; the last five."""
    found: dict[str, Fact] = {}
    for sentence in _sentences(text):
        asked = _ASKS_TO_KEEP.search(sentence)
        said = sentence[asked.end() :].strip() if asked else sentence
        subject = _subject(said, bool(asked))
        if subject and len(said) <= MAX_FACT_CHARACTERS and not mentions_secret(said):
            found[subject] = Fact(subject, said)
    return list(found.values())[-MAX_FACTS:]


def _subject(said: str, is_asked: bool) -> str:
    for pattern, name in () if _QUESTION.search(said) else _RULES:
        if match := pattern.search(said):
            subject = name or memory_key(match.groupdict().get("s") or said)
            if subject not in _NO_SUBJECTS:
                return subject
    return memory_key(said) if is_asked else ""


def _sentences(text: str) -> list[str]:
    whole = (
        match.strip(" \u3000\t.。!！;；\n") for match in _SENTENCE.findall(storable_text(text))
    )
    return [one for one in whole if one]


MAX_SAID = 4000
_WRITTEN = re.compile(r"\s*\d{1,4}\s*", re.ASCII)
_NUMBERS = {"type": "array", "items": {"type": "integer"}}
_FACT_FORM = {
    "type": "object",
    "properties": {
        "subject": {"type": "string"},
        "text": {"type": "string"},
        "replaces": _NUMBERS,
    },
    "required": ["subject", "text"],
}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"facts": {"type": "array", "items": _FACT_FORM}, "outdated": _NUMBERS},
    "required": ["facts"],
}


def facts_prompt(said: str, known: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Return what a model is told and given: the rules; as data, known facts and what was said."""
    listed = "\n".join(
        f'<fact id="{number}" subject={quote_attribute(subject)}>{escape_data(text)}</fact>'
        for number, (subject, text) in enumerate(known, start=1)
    )
    data = f"<known>\n{listed}\n</known>\n<said>{escape_data(said[:MAX_SAID])}</said>"
    return prompt_file(f"facts_{'zh' if HAN.search(said) else 'en'}"), data


def parse_facts(answer: str, n_known: int) -> tuple[list[Fact], tuple[int, ...]] | None:
    """Return the facts of a model's answer and the numbers of those outdated; None: it has none.

    What does not fit the schema is left out, and so is what looks like a secret.
    """
    whole = next(
        (one for one in find_json_objects(answer) if isinstance(one.get("facts"), list)), None
    )
    if whole is None:
        return None
    read = (_fact(one, n_known) for one in whole["facts"][:MAX_FACTS])
    return [fact for fact in read if fact], _numbers(whole.get("outdated"), n_known)


def _fact(one: Any, n_known: int) -> Fact | None:
    text = one.get("text") if isinstance(one, Mapping) else None
    if not isinstance(text, str) or len(text) > MAX_FACT_CHARACTERS:
        return None
    given = one.get("subject")
    about = given if isinstance(given, str) and given.strip() else text
    if mentions_secret(about) or mentions_secret(text):
        return None
    subject = memory_key(about)
    kept = " ".join(storable_text(text).split())
    return Fact(subject, kept, _numbers(one.get("replaces"), n_known)) if subject and kept else None


def _numbers(values: Any, limit: int) -> tuple[int, ...]:
    if not isinstance(values, list):
        return ()
    # Some models write numbers as texts.
    read = [int(n) if isinstance(n, str) and _WRITTEN.fullmatch(n) else n for n in values]
    return tuple(n for n in read if type(n) is int and 1 <= n <= limit)


MAX_QUESTION, MAX_ANSWER = 1000, 1500
_MARK = re.compile(r"\[\d{1,3}\]")


@dataclass(frozen=True, slots=True)
class Episode:
    """What is kept of an exchange; ``subject`` is the question, folded."""

    subject: str
    question: str
    answer: str

    @property
    def meaning(self) -> str:
        """Return the text that it is found by."""
        return f"{self.question}\n{self.answer[:300]}".strip()


def make_episode(question: str, answer: str) -> Episode | None:
    """Return what is kept, each part cut; None for a question without words or with a secret."""
    question = " ".join(storable_text(question).split())[:MAX_QUESTION]
    answer = _MARK.sub("", storable_text(answer)).strip()
    subject = memory_key(question)
    if not subject or mentions_secret(question) or mentions_secret(answer):
        return None
    return Episode(subject, question, answer[:MAX_ANSWER])
