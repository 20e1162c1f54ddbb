"""The changes that the citation benchmark makes: one each, of the kind that they are named after."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from benchmarks.citation_answers import ALTERED_KINDS, FOREIGN_KINDS, labelled_answers
from benchmarks.citation_changes import (
    ABRIDGED,
    ALTERED,
    CUT_ANYWHERE,
    HIDING,
    HONEST,
    says_the_same,
)
from benchmarks.citation_claims import free_claims
from benchmarks.citation_quotes import as_passages, as_tag, read_halves
from tests.unit.passages import verify_citations

SENTENCES = {
    "zh": "公司在 2024 年共有 315 名员工，其中使用新系统的人员必须登记，但夜班人员除外。",
    "en": "In 2024 the company had 315 staff, and those of the first office must register, unless they are away.",
}


@pytest.mark.parametrize("language", SENTENCES)
@pytest.mark.parametrize("kind", [*ALTERED, "cut anywhere"])
def test_an_alteration_says_something_else(kind: str, language: str) -> None:
    change = {**ALTERED, "cut anywhere": CUT_ANYWHERE}[kind]
    quote = SENTENCES[language]
    for seed in range(20):
        changed = change(quote, language, random.Random(seed))
        assert not says_the_same(changed, quote)
        assert ("cut" in kind) == (changed in quote)


@pytest.mark.parametrize("language", SENTENCES)
@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_change_says_the_same(kind: str, language: str) -> None:
    quote = SENTENCES[language]
    assert says_the_same(HONEST[kind](quote, language, random.Random(1)), quote)


@pytest.mark.parametrize("language", SENTENCES)
def test_an_ellipsis_leaves_out_what_it_is_named_after(language: str) -> None:
    quote = SENTENCES[language]
    for change, turn in ((ABRIDGED, False), (HIDING, True)):
        for seed in range(10):
            changed = change(quote, language, random.Random(seed))
            head = changed.split("…")[0].split("...")[0].rstrip(" [")
            assert changed != quote and quote.startswith(head)
            is_whole = all(word in changed for word in ("unless", "除外") if word in quote)
            assert is_whole or turn


@pytest.mark.parametrize("language", SENTENCES)
def test_what_cannot_be_changed_stays(language: str) -> None:
    for change in ALTERED.values():
        assert change("a", language, random.Random(1)) == "a"


def test_a_tag_carries_its_quote_whole() -> None:
    quote = "He said \"A < B & C\" 'so'."
    _, (citation,) = verify_citations(as_tag("doc_01", quote), as_passages([quote]))
    assert (citation.quote, citation.verdict) == (quote, "verified")


def write(folder: Path, n: int) -> None:
    rows = [
        {
            "_id": str(i),
            "text": f"Paragraph {i} tells of hall {i}. Its pump, number {i * 7}, must never stop.",
        }
        for i in range(n)
    ]
    asked = [
        {
            "_id": f"q{i}",
            "text": "?",
            "answers": [f"hall {i}", "x"],
            "evidence": {str(i): [{"label": "SUPPORT"}]} if i % 3 else {},
        }
        for i in range(n)
    ]
    for row in asked:
        row["_id"] = str(row["_id"]).removeprefix("q")
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, asked)))
    lines = ["query-id\tcorpus-id\tscore", *(f"{i}\t{i}\t1" for i in range(n))]
    (folder / "qrels.tsv").write_text("\n".join(lines))


def test_no_article_is_in_both_halves(tmp_path: Path) -> None:
    write(tmp_path, 40)
    even, odd = read_halves(tmp_path, "en")
    assert [len(half.passages) for half in (even, odd)] == [20, 20]
    assert even.passages[0].text.startswith("Paragraph 0 ")
    assert odd.passages[0].text.startswith("Paragraph 5 ")
    assert odd.phrases[0] == (0, "hall 5")
    assert all(
        sentence in half.passages[n].text for half in (even, odd) for n, sentence in half.sentences
    )


def test_labelled_sentences_come_from_where_they_say(tmp_path: Path) -> None:
    write(tmp_path, 60)
    half, _ = read_halves(tmp_path, "en")
    answers = list(labelled_answers(half, 3))
    assert answers
    assert [len(answer.passages) for answer in answers] == [10] * len(answers)
    for answer in answers:
        texts = {passage.doc_id: passage.text for passage in answer.passages}
        for sentence in answer.sentences:
            if sentence.kind in FOREIGN_KINDS:
                assert sentence.passage == ""
                assert all(sentence.text not in text for text in texts.values())
            else:
                assert sentence.origin.split(".")[0] in texts[sentence.passage]
            if sentence.kind in ALTERED_KINDS:
                assert not says_the_same(sentence.text, sentence.origin)
    assert list(labelled_answers(half, 3)) == answers


def test_claims_stand_among_ten_abstracts_with_theirs_and_without(tmp_path: Path) -> None:
    write(tmp_path, 40)
    claims = list(free_claims(tmp_path, is_tuning=True, seed=1))
    kinds = [kind for *_, kind in claims]
    assert kinds.count("SUPPORT") == sum(1 for i in range(0, 40, 2) if i % 3)
    assert all(len(passages) == 10 for _, passages, _, kind in claims if kind == "SUPPORT")
    assert kinds.count("foreign") == 20
