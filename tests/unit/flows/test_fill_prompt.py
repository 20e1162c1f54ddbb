"""Prompts: exact placeholders, nothing else; values are not looked at again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.prompts import fill_prompt, placeholders

PROMPT = """## 知识库内容

{rag_context}

```json
{
  "confidence": 0.0-1.0,
  "additional_fields": {"risk_level": "low|medium|high"}
}
```
{user_query} { user_query } {user_query.x} {{user_query}} {用户} {} {0} {unknown}"""


def test_known_names_are_filled_and_all_other_braces_stay() -> None:
    filled = fill_prompt(
        PROMPT, {"rag_context": "资料{user_query}", "user_query": "年假？", "用户": "甲"}
    )
    assert filled == PROMPT.replace("{rag_context}", "资料\0").replace(
        "\n{user_query} {", "\n年假？ {"
    ).replace("{{user_query}}", "{年假？}").replace("{用户}", "甲").replace("\0", "{user_query}")


def test_placeholders_are_named_once_in_order() -> None:
    assert placeholders(PROMPT) == ("rag_context", "user_query", "用户", "unknown")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), ("", ""), ("a", "a"), (3, "3"), (True, "true"), ({"a": ["中"]}, '{"a": ["中"]}')],
)
def test_values_are_written_as_text_or_json(value: object, text: str) -> None:
    assert fill_prompt("<{v}>", {"v": value}) == f"<{text}>"


@given(value=st.text(), around=st.text())
def test_a_value_is_put_in_unchanged(value: str, around: str) -> None:
    before = around.replace("{", "(")
    assert fill_prompt(before + "{v}" + before, {"v": value, "w": "no"}) == before + value + before


@given(prompt=st.text(alphabet="{}ab \"':0中", max_size=60))
def test_without_values_a_prompt_is_unchanged(prompt: str) -> None:
    assert fill_prompt(prompt, {}) == prompt
