"""An answer's events as the text that OpenAI's clients are shown, and what goes along."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agents.chat.openai.answer import OpenAIAnswer, footnotes, strip_footnotes
from agents.core.chat_events import ChatEvent

CITED = {"number": 1, "verdict": "verified", "quote": "a\n b", "file_name": "x.txt", "page": 2}


def heard(answer: OpenAIAnswer, *events: tuple[str, Any]) -> list[str]:
    told = [answer.take(ChatEvent(n + 1, kind, data)) for n, (kind, data) in enumerate(events)]
    return [text for text in [*told, answer.finish()] if text]


def delta(text: str) -> tuple[str, Any]:
    return "delta", {"text": text}


def replace(text: str, *citations: Any) -> tuple[str, Any]:
    return "replace", {"text": text, "citations": citations}


def test_what_was_said_before_a_tool_stays_as_a_paragraph_in_a_stream() -> None:
    answer = OpenAIAnswer()
    assert heard(answer, delta("I look."), replace(""), delta("Yes.")) == [
        "I look.",
        "\n\n",
        "Yes.",
    ]
    assert answer.about([])["text"] == "Yes."
    held = OpenAIAnswer(holds=True)
    assert heard(held, delta("I look."), replace(""), delta("Yes.")) == ["Yes."]
    assert "text" not in held.about([])


def test_a_replacement_that_goes_on_with_the_text_adds_what_is_new() -> None:
    answer = OpenAIAnswer()
    assert heard(answer, delta("Yes"), replace("Yes, it is.")) == ["Yes", ", it is."]
    assert "text" not in answer.about([])


def test_what_is_taken_back_in_a_stream_says_so_and_statements_lie_behind_it() -> None:
    answer = OpenAIAnswer(has_footnotes=True)
    text = "It is so.[1] Mars owns it."
    statement = {"verdict": "unsupported", "start": 13, "end": 26}
    grounding = {"statements": [statement], "n_statements": 2, "n_found": 1}
    events = delta("Every 999 days."), replace(text, CITED), ("done", {"grounding": grounding})
    assert "".join(heard(answer, *events)) == (
        f"Every 999 days.\n\n⚠ What stands above is withdrawn.\n\n{text}\n\n---\n"
        "⚠ 1 of 2 statements found in the sources.\n⚠ Not found in the sources: “Mars owns it.”\n"
        "[1] x.txt, p. 2: “a b”"
    )
    nobody = OpenAIAnswer()
    taken_back = "replace", {"text": "", "citations": [], "withdrawn": True}
    told = "".join(heard(nobody, delta("每 999 天。"), taken_back, delta("不知道。")))
    assert told == "每 999 天。\n\n⚠ 以上内容已撤回。\n\n不知道。"


def test_a_repaired_answer_has_only_its_new_citations() -> None:
    answer = OpenAIAnswer(has_footnotes=True, holds=True)
    wrong = {**CITED, "verdict": "unknown"}
    events = delta("No.[1]"), ("citation", wrong), replace("Yes.[1]", CITED)
    assert heard(answer, *events) == ["Yes.[1]\n\n---\n[1] x.txt, p. 2: “a b”"]
    assert answer.citations == [CITED]


def test_after_a_stop_nothing_is_added_and_citations_are_those_shown() -> None:
    answer = OpenAIAnswer(["STOP"], has_footnotes=True)
    second = {**CITED, "number": 2}
    events = [
        delta("One.[1] ST"),
        ("citation", CITED),
        delta("OP Two.[2]"),
        ("citation", second),
        ("stopped", {}),
    ]
    assert "".join(heard(answer, *events)) == "One.[1] \n\n---\n[1] x.txt, p. 2: “a b”"
    assert answer.is_cut and [one["number"] for one in answer.citations] == [1]


def test_tokens_that_nobody_counted_are_estimated() -> None:
    answer = OpenAIAnswer()
    heard(answer, delta("one two three"), ("usage", {"finish_reason": "length"}))
    usage = answer.usage("one two")
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (2, 3)
    assert answer.finish_reason == "length"
    counted = OpenAIAnswer()
    heard(counted, ("usage", {"input_tokens": 7, "output_tokens": 0, "finish_reason": "stop"}))
    assert counted.usage("x") == {"prompt_tokens": 7, "completion_tokens": 0, "total_tokens": 7}


@given(st.text(), st.lists(st.text(), max_size=3))
def test_footnotes_can_be_taken_off_again(text: str, quotes: list[str]) -> None:
    marked = text + "".join(f"[{n}]" for n, _ in enumerate(quotes, 1))
    cited = [{**CITED, "number": n, "quote": quote} for n, quote in enumerate(quotes, 1)]
    plain = strip_footnotes(text=marked)
    assert strip_footnotes(text=plain + footnotes(citations=cited, text=plain)) == plain


def test_a_text_with_a_rule_of_its_own_keeps_it() -> None:
    text = "Above.\n\n---\nBelow [1] it."
    assert strip_footnotes(text=text) == text
    odd = {**CITED, "verdict": "altered", "page": None, "file_name": ""}
    assert footnotes(citations=[odd], text="[1]") == "\n\n---\n[1] ?: “a b” (altered)"
