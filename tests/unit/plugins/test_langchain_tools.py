"""Tools of LangChain as tool plugins: their schema, their answers, their faults."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from langchain_core.tools import tool

from agents.runtime.langchain_tools import tool_of_langchain
from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import ConfigurationError, InvalidInputError
from rag.core.plugins import outbound_hosts
from rag.core.tools import call_tool, spec_of
from rag.services.sources import SourceContext


@tool
def count_letters(text: str, letter: str = "a", case: Literal["same", "any"] = "any") -> int:
    """Count a letter in a text."""
    if not text:
        raise KeyError("secret path")
    text, letter = (text.lower(), letter.lower()) if case == "any" else (text, letter)
    return text.count(letter)


@tool
def takes_anything(value: set[str]) -> str:
    """Take what no form can show."""
    return str(value)


def call(**arguments: Any) -> dict[str, Any]:
    made = tool_of_langchain(count_letters)()
    around = {"scope": Scope.anonymous(), "deadline": Deadline(5), "ports": SourceContext()}
    return call_tool(made, arguments, **around)  # type: ignore[arg-type]


def test_a_model_is_told_the_tools_own_schema() -> None:
    spec = spec_of(tool_of_langchain(count_letters))
    assert (spec.name, spec.description) == ("count_letters", "Count a letter in a text.")
    assert spec.parameters["required"] == ["text"]
    assert spec.parameters["properties"]["case"]["enum"] == ["same", "any"]


def test_it_is_called_and_its_faults_are_errors_in_words() -> None:
    assert call(text="Banana") == {"result": 3}
    assert call(text="BANANA", case="same") == {"result": 0}
    with pytest.raises(InvalidInputError):
        call(letter="b")
    with pytest.raises(KeyError):
        # Whoever calls tools tells it by its kind alone.
        call(text="")
    with pytest.raises(ConfigurationError, match="takes_anything"):
        tool_of_langchain(takes_anything)


def test_whom_it_calls_is_unknown_unless_said() -> None:
    assert outbound_hosts(tool_of_langchain(count_letters), {}) == {"plugin:count_letters"}
    assert outbound_hosts(tool_of_langchain(count_letters, hosts=()), {}) == frozenset()
