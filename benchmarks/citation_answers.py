"""Citations benchmark, its answers without markers, with labelled sentences.

Each answer mixes sentences copied and lightly reworded from its passages, sentences of other
paragraphs and other articles, sentences with a number or denial of their own, and such as are half
invented: they go on like a sentence that no passage has, or have a clause more
(``invented_clauses.txt``).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import rjieba

from benchmarks.citation_changes import ALTERED, says_the_same
from benchmarks.citation_quotes import PER_ARTICLE, Half
from rag.stages.prompting.context import Passage

N_PASSAGES = 10
FOREIGN_KINDS = ("of other paragraphs", "of other articles")
INVENTED_KINDS = ("half invented", "with an invented clause")
CLAUSES = Path(__file__).with_name("data") / "invented_clauses.txt"
ALTERED_KINDS = ("other number", "negation or opposite")
KINDS = ("copied", "clauses reordered", "words dropped", "synonyms", "all three")
_SYNONYMS = {
    "zh": [
        ("因为", "由于"),
        ("但是", "不过"),
        ("例如", "比如"),
        ("使用", "采用"),
        ("开始", "起初"),
        ("认为", "觉得"),
        ("进行", "做"),
        ("包括", "包含"),
        ("主要", "主体"),
        ("许多", "很多"),
        ("以及", "和"),
        ("由于", "因为"),
        ("可以", "能"),
        ("他们", "这些人"),
        ("成为", "变成"),
        ("获得", "得到"),
        ("人们", "大家"),
        ("发现", "察觉"),
    ],
    "en": [
        ("large", "big"),
        ("began", "started"),
        ("many", "numerous"),
        ("used", "employed"),
        ("such as", "like"),
        ("called", "named"),
        ("city", "town"),
        ("show", "demonstrate"),
        ("because", "since"),
        ("also", "too"),
        ("built", "constructed"),
        ("people", "persons"),
        ("first", "initial"),
        ("made", "produced"),
        ("important", "significant"),
        ("area", "region"),
        ("several", "a number of"),
        ("became", "turned into"),
        ("however", "yet"),
        ("while", "whereas"),
    ],
}


@dataclass(frozen=True, slots=True)
class MadeSentence:
    """One sentence of an answer, and the ``passage`` and words that it comes from, if any."""

    text: str
    kind: str
    passage: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True)
class LabelledAnswer:
    """What is attributed at once."""

    passages: tuple[Passage, ...]
    sentences: tuple[MadeSentence, ...]


def labelled_answers(half: Half, seed: int) -> Iterator[LabelledAnswer]:
    """Yield an answer for every two articles: half of each one's paragraphs are not among its ten.

    So that as many sentences come from paragraphs beside the given ones as from other articles.
    """
    rng = random.Random(seed)
    n = len(half.passages)
    by_passage: dict[int, list[str]] = {}
    for number, sentence in half.sentences:
        by_passage.setdefault(number, []).append(sentence)
    starts = list(range(0, n, PER_ARTICLE))
    for first in range(0, len(starts) - 3, 2):
        near = [i for start in starts[first : first + 4] for i in range(start, start + PER_ARTICLE)]
        given = sorted(rng.sample(near, N_PASSAGES))
        beside = [i for i in near if i not in given]
        far = [i for i in range(n) if i not in near]
        labelled = [*_supported(half, by_passage, given, rng)]
        labelled += _invented(half, by_passage, given, random.Random(f"{seed} {first}"))
        for kind, others in zip(FOREIGN_KINDS, (beside, far), strict=True):
            texts = [sentence for i in others for sentence in by_passage.get(i, ())]
            labelled += [
                MadeSentence(text, kind) for text in rng.sample(texts, min(10, len(texts)))
            ]
        rng.shuffle(labelled)
        yield LabelledAnswer(tuple(half.passages[i] for i in given), tuple(labelled))


def _supported(
    half: Half, by_passage: dict[int, list[str]], given: list[int], rng: random.Random
) -> Iterator[MadeSentence]:
    for number in given:
        sentences = by_passage.get(number, [])
        doc_id = half.passages[number].doc_id
        for sentence in rng.sample(sentences, min(2, len(sentences))):
            kind = rng.choice(KINDS)
            yield MadeSentence(_REWORD[kind](sentence, half.language, rng), kind, doc_id, sentence)
        if len(sentences) > 1:
            at = rng.randrange(len(sentences) - 1)
            joined = _joined(sentences[at], sentences[at + 1], half.language)
            yield MadeSentence(joined, "two joined", doc_id, "".join(sentences[at : at + 2]))
        for sentence in rng.sample(sentences, min(1, len(sentences))):
            for kind in ALTERED_KINDS:
                changed = ALTERED[kind](sentence, half.language, rng)
                if not says_the_same(changed, sentence):
                    yield MadeSentence(changed, kind, doc_id, sentence)


def _invented(
    half: Half, by_passage: dict[int, list[str]], given: list[int], rng: random.Random
) -> Iterator[MadeSentence]:
    """Yield a sentence of each passage that goes on like none of them, one with a clause more.

    Every other clause is for the half to tune on.
    """
    others = [text for number, text in half.sentences if number not in given]
    lines = CLAUSES.read_text(encoding="utf-8").splitlines()
    parts = [line.partition("\t") for line in lines]
    clauses = [text for language, _, text in parts if language == half.language]
    for number in given:
        if number not in by_passage:
            continue
        sentence, doc_id = rng.choice(by_passage[number]), half.passages[number].doc_id
        halves = _half_invented(sentence, rng.choice(others), half.language)
        longer = sentence[:-1] + rng.choice(clauses[not half.is_tuned :: 2]) + sentence[-1]
        for kind, text in zip(INVENTED_KINDS, (halves, longer), strict=True):
            yield MadeSentence(text, kind, doc_id, sentence)


def reworded(sentence: str, language: str, rng: random.Random) -> str:
    """Return a sentence in one of the ways in which true statements are reworded."""
    return _REWORD[rng.choice(KINDS)](sentence, language, rng)


def _joined(first: str, second: str, language: str) -> str:
    return first[:-1] + ("，" if language == "zh" else ", and ") + second


def _half_invented(sentence: str, other: str, language: str) -> str:
    """Return the first half of a sentence that goes on like another one."""
    words, others = _words(sentence, language), _words(other, language)
    return "".join([*words[: len(words) // 2], *others[len(others) // 2 :]])


def _copied(text: str, language: str, rng: random.Random) -> str:
    return text


def _reordered(text: str, language: str, rng: random.Random) -> str:
    body, stop = text[:-1], text[-1]
    clauses = re.split(r"，" if language == "zh" else r",\s+", body)
    if len(clauses) < 2:
        return text
    at = rng.randrange(1, len(clauses))
    return ("，" if language == "zh" else ", ").join([*clauses[at:], *clauses[:at]]) + stop


def _words(text: str, language: str) -> list[str]:
    return rjieba.cut(text) if language == "zh" else re.split(r"(?<= )", text)


def _without_words(text: str, language: str, rng: random.Random) -> str:
    words = _words(text, language)
    keep = re.compile(r"\d|[不没未无]|\b(?:not?|never|without|n't)\b")
    return "".join(
        word
        for n, word in enumerate(words)
        if n in (0, len(words) - 1) or keep.search(word) or rng.random() > 0.15
    )


def _with_synonyms(text: str, language: str, rng: random.Random) -> str:
    for word, other in _SYNONYMS[language]:
        pattern = word if language == "zh" else rf"\b{word}\b"
        text = re.sub(pattern, other, text)
    return text


def _all_three(text: str, language: str, rng: random.Random) -> str:
    for change in (_with_synonyms, _reordered, _without_words):
        text = change(text, language, rng)
    return text


_REWORD: dict[str, Callable[[str, str, random.Random], str]] = {
    "copied": _copied,
    "clauses reordered": _reordered,
    "words dropped": _without_words,
    "synonyms": _with_synonyms,
    "all three": _all_three,
}
