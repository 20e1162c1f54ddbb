"""Grounding benchmark, its restated answers: a question and what answers it, as one statement.

That is how chat models answer: the question's words, with the answer in the place of what it asks
for. A wrong one has another answer, or stands beside passages of another article.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.citation_answers import reworded
from benchmarks.citation_quotes import PER_ARTICLE, as_passages
from rag.stages.prompting.context import Passage
from rag.stages.text.sentences import sentence_spans

RIGHT, REWORDED, ELSEWHERE = "right", "reworded", "beside another article"
OF_PASSAGE, OF_ARTICLE = "another answer of the passage", "another answer of the article"

# What asks in Chinese, the longest first; the answer takes its place.
_ASKS_ZH = re.compile(
    r"(?:在|从|于)?(?:什么时候|什么时间|什么地方|什么原因|哪里|哪儿|何时|何处|何地|为什么|为何|多长时间)"
    r"|(?:哪|几)(?:一)?(?:个|些|种|位|名|年|天|家|支|所|部|座|条|次|场|项|类|本|款)?(?:月|日|世纪|年代)?"
    r"|什么(?:样的)?|多少|多[大高长远重快宽深久]|谁|怎么样?|怎样|如何"
)
_BE = "is|are|was|were"
_AUXILIARY = f"{_BE}|did|does|do|has|have|had|can|could|will|would|should|may|might"
_WHO = re.compile(r"(?:who|what|which \w+|what \w+|whose \w+) (?=\w+)", re.I)
_IS = re.compile(rf"(?:what|who|where|when|which) ({_BE}) (.+)", re.I)
_HOW_MANY = re.compile(rf"how (?:many|much) (.+?) ({_AUXILIARY}) (.+)", re.I)
_INVERTED = re.compile(
    rf"(.*?\b(?:what|which|where|when|why|how|who|whom)\b.*?) ({_AUXILIARY}) (.+)", re.I
)


@dataclass(frozen=True, slots=True)
class Restated:
    """A statement that answers ``question``, and the passages that it is held against.

    ``source`` is the passage's id and the sentence that has the right answer.
    """

    question: str
    claim: str
    kind: str
    passages: tuple[Passage, ...]
    source: tuple[str, str] = ("", "")


def restate(question: str, answer: str, language: str) -> str:
    """Return a question and an answer as one statement."""
    asked, said = question.strip().rstrip("？?").strip(), answer.strip().rstrip("。.")
    if language == "zh":
        found = list(_ASKS_ZH.finditer(asked))
        if not found:
            return f"{asked}：{said}。"
        match = max(found, key=lambda one: len(one[0]))
        rest = asked[match.end() :]
        # 多少次 and 24 次 make 24 次.
        said = said[:-1].rstrip() if said[-1:] == rest[:1] else said
        return f"{asked[: match.start()]}{said}{rest}。"
    if match := _IS.fullmatch(asked):
        return f"{_capital(match[2])} {match[1].lower()} {said}."
    if match := _HOW_MANY.fullmatch(asked):
        verb = "" if match[2].lower() in ("did", "does", "do") else f"{match[2].lower()} "
        return f"{_capital(match[3])} {verb}{said} {match[1]}."
    if (match := _WHO.match(asked)) and not re.match(rf"(?:{_AUXILIARY})\b", asked[match.end() :]):
        return f"{said} {asked[match.end() :]}."
    if match := _INVERTED.fullmatch(asked):
        verb = "" if match[2].lower() in ("did", "does", "do") else f"{match[2].lower()} "
        return f"{_capital(match[3])} {verb}{said}."
    return f"{asked}: {said}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def restated_answers(
    folder: Path, language: str, *, is_tuning: bool, seed: int
) -> Iterator[Restated]:
    """Yield each question's right answer, and wrong ones; those of even articles are to tune on."""
    rng = random.Random(seed)
    texts, asked = _read(folder)
    articles = [
        as_passages(texts[first : first + PER_ARTICLE])
        for first in range(0, len(texts), PER_ARTICLE)
    ]
    answers: dict[int, list[str]] = {}
    for number, _, gold in asked:
        answers.setdefault(number, []).append(gold)
    for number, question, gold in asked:
        article = number // PER_ARTICLE
        others = [n for n in range(len(articles)) if n != article and n % 2 == article % 2]
        other = rng.choice(others)
        if (article % 2 == 0) != is_tuning:
            continue
        passages, right = articles[article], restate(question, gold, language)
        spans = sentence_spans(texts[number])
        told = (texts[number][start:end].strip() for start, end in spans)
        quote = next((one for one in told if gold in one), "")
        source = (passages[number % PER_ARTICLE].doc_id, quote)
        yield Restated(question, right, RIGHT, passages, source)
        yield Restated(question, right, ELSEWHERE, articles[other])
        if quote:
            yield Restated(question, reworded(quote, language, rng), REWORDED, passages, source)
        first = article * PER_ARTICLE
        near = [n for n in range(first, first + PER_ARTICLE) if n != number]
        for kind, numbers in ((OF_PASSAGE, [number]), (OF_ARTICLE, near)):
            pool = [one for n in numbers for one in answers.get(n, ()) if _differs(one, gold)]
            if pool:
                claim = restate(question, rng.choice(pool), language)
                yield Restated(question, claim, kind, passages, source)


def _read(folder: Path) -> tuple[list[str], list[tuple[int, str, str]]]:
    """Return the paragraphs, and each question with the number of its paragraph and its answer."""
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]
    asked = [json.loads(line) for line in (folder / "queries.jsonl").open(encoding="utf-8")]
    relevant = dict(
        line.split("\t")[:2]
        for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]
    )
    places = {row["_id"]: number for number, row in enumerate(rows)}
    return [row["text"] for row in rows], [
        (places[relevant[row["_id"]]], row["text"], row["answers"][0]) for row in asked
    ]


def _differs(one: str, other: str) -> bool:
    left, right = one.casefold(), other.casefold()
    return left not in right and right not in left
