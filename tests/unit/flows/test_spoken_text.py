"""Which pieces of an answer are for people: texts, the text inside JSON, calls of tools."""

from __future__ import annotations

import json

import pytest

from agents.core.spoken_text import SpokenForm, SpokenText

TEXT = 'Say "5 days"\\n — 年假 😀 {"a": 1} \\ end'
ANSWER = json.dumps({"intent": "qa", "response_content": TEXT, "confidence": 0.9})
CALL = '{"tool": "search", "arguments": {"query": "x"}}'


def spoken(
    text: str, size: int, form: SpokenForm, *, may_call: bool = False, is_call: bool = False
) -> tuple[str, str]:
    """Return what people are told and what they are not."""
    sorter = SpokenText(form, tools=("search",) if may_call else ())
    told = [pair for at in range(0, len(text), size) for pair in sorter.feed(text[at : at + size])]
    told += sorter.finish(is_call=is_call)
    return tuple("".join(one for kind, one in told if kind == name) for name in ("token", "draft"))  # type: ignore[return-value]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_json_speaks_by_its_response_content_alone(size: int) -> None:
    assert spoken(ANSWER, size, "json") == (TEXT, ANSWER)
    escaped = json.dumps({"response_content": TEXT}, ensure_ascii=True)
    assert spoken(f"```json\n{escaped}\n```", size, "json")[0] == TEXT
    assert spoken('{"verdict": "refund"}', size, "json") == ("", '{"verdict": "refund"}')
    inner = json.dumps({"note": '"response_content": "no"', "response_content": "yes"})
    assert spoken(inner, size, "json")[0] == "yes"


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_calls_are_told_to_nobody_and_texts_to_people(size: int) -> None:
    assert spoken(CALL, size, "text", may_call=True, is_call=True) == ("", CALL)
    assert spoken("Five days.", size, "text", may_call=True) == ("Five days.", "")
    tagged = f"I look. <tool_call>{CALL}</tool_call>"
    shown, rest = spoken(tagged, size, "text", may_call=True, is_call=True)
    assert (shown, rest) == ("I look. ", f"<tool_call>{CALL}</tool_call>")
    assert spoken('{"a": 1}', size, "text", may_call=True) == ('{"a": 1}', "")
    assert spoken("mend", size, "none") == ("", "mend")


def test_what_is_no_json_after_all_says_nothing() -> None:
    assert spoken('{"response_content": "a\\q', 1, "json")[0] in ("", "a")
