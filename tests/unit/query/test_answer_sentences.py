"""Selection of the sentences that answer: headlines and echoes of the question do not."""

from __future__ import annotations

import pytest

from rag.stages.query.answer_sentences import SentenceScorer, SourceSentence


def best(question: str, *texts: str) -> str:
    sentences = [
        SourceSentence(f"doc_{n:02d}", n, text, text, 0) for n, text in enumerate(texts, start=1)
    ]
    scores = SentenceScorer(question, sentences).scores()
    return texts[scores.index(max(scores))]


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        (
            "When did the harbour bridge open?",
            "The bridge was handed over to the city in May 1987.",
            "The harbour bridge is open to all at the harbour.",
        ),
        (
            "港湾大桥是什么时候通车的？",
            "大桥于1987年5月正式通车。",
            "关于港湾大桥通车，请看下面的介绍。",
        ),
        (
            "How many seats does the hall have?",
            "It has room for 1,200 seats in two tiers.",
            "The hall: how many seats does the hall have?",
        ),
        ("大厅有多少个座位？", "大厅分两层，共设1200个座位。", "大厅有多少个座位？"),
        (
            "What fuel does the heater use?",
            "The heater burns pellets of pressed wood, which are fed by a screw.",
            "What fuel the heater does use: an overview",
        ),
    ],
)
def test_a_sentence_with_an_answer_beats_one_that_repeats_the_question(
    question: str, answer: str, other: str
) -> None:
    assert best(question, other, answer) == answer
    assert best(question, answer, other) == answer


def test_a_sentence_is_read_with_those_before_it() -> None:
    passage = "The harbour bridge is the longest one here. It opened in May 1987. It is red."
    texts = ["The harbour bridge is the longest one here.", "It opened in May 1987."]
    sentences = [SourceSentence("doc_01", 0, passage, one, n) for n, one in enumerate(texts)]
    other = SourceSentence("doc_02", 1, "", "The mill opened in June 1901.", 0)
    scores = SentenceScorer("When did the harbour bridge open?", [*sentences, other]).scores()
    assert scores[1] > scores[2]
    assert scores[1] > scores[0]


def test_no_sentences_have_no_scores() -> None:
    assert SentenceScorer("When?", []).scores() == []
