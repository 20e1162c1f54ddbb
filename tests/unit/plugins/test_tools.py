"""Tools: what a model is told, what it may send, what must come back; a tool by its contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from rag.core.access import Scope
from rag.core.deadline import Deadline
from rag.core.errors import (
    CancelledError,
    ForbiddenError,
    InvalidInputError,
    ProviderError,
    ProviderTimeoutError,
    UnknownNameError,
)
from rag.core.options import option
from rag.core.tools import ToolCall, ToolSpec, call_tool, spec_of
from rag.plugins.contract_source import LentPorts
from tests.contracts import ToolContract

OPERATOR = Scope.operator()


class Count:
    """Counts words, for people with a name."""

    name = "count_words"
    label = "Count words"
    description = "Count the words of a text. Returns the number as `words`."

    @dataclass(frozen=True)
    class Options:
        text: str = option(help="The text.")
        at_most: int = option(1000, help="Longer texts are refused.", minimum=1)

    def run(self, call: ToolCall) -> dict[str, Any]:
        if call.scope == Scope.anonymous():
            raise ForbiddenError("Counting needs a name.")
        n_words = len(call.arguments.text.split())
        if n_words > call.arguments.at_most:
            raise InvalidInputError("{n} words are too many.", n=n_words)
        return {"words": n_words}


class Returns:
    name, label, description = "returns", "Returns", "Returns what it was made with."

    @dataclass
    class Options:
        pass

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def run(self, call: ToolCall) -> Any:
        return self.answer


def call(tool: Any, deadline: Deadline | None = None, **arguments: Any) -> dict[str, Any]:
    return call_tool(
        tool, arguments, scope=OPERATOR, deadline=deadline or Deadline(5), ports=LentPorts({})
    )


class TestCount(ToolContract):
    plugin = Count
    options = {"text": "one two three"}

    def hidden_options(self) -> Mapping[str, Any]:
        return self.options

    def failing_options(self) -> Mapping[str, Any]:
        return {"text": "one two", "at_most": 1}


def test_a_model_is_told_name_purpose_and_schema() -> None:
    spec = spec_of(Count)
    assert isinstance(spec, ToolSpec)
    assert (spec.name, spec.description) == ("count_words", Count.description)
    assert spec.parameters["required"] == ["text"]
    assert spec.parameters["properties"]["at_most"]["minimum"] == 1
    assert spec_of(Count()) == spec


def test_arguments_arrive_typed() -> None:
    assert call(Count(), text="a b c d") == {"words": 4}
    assert call(Count(), text="") == {"words": 0}


def test_arguments_that_do_not_fit_never_reach_the_tool() -> None:
    with pytest.raises(
        UnknownNameError, match="Unknown option “count_words.txt”. Known: at_most, text."
    ):
        call(Count(), txt="a")
    with pytest.raises(InvalidInputError, match="count_words needs the option “text”"):
        call(Count())
    with pytest.raises(InvalidInputError, match="“text” of count_words is 5"):
        call(Count(), text=5)


def test_errors_of_the_tool_pass() -> None:
    with pytest.raises(InvalidInputError, match="2 words are too many"):
        call(Count(), text="a b", at_most=1)


@pytest.mark.parametrize("answer", [None, "text", ["list"], 5])
def test_an_answer_that_is_no_object_is_an_error(answer: Any) -> None:
    with pytest.raises(ProviderError, match="The tool returns answered with no object"):
        call(Returns(answer))


@pytest.mark.parametrize(
    "answer", [{"x": object()}, {"x": float("nan")}, {(1, 2): 3}, {"x": "\ud800"}]
)
def test_an_answer_that_is_no_json_is_an_error(answer: Any) -> None:
    with pytest.raises(ProviderError, match="The answer of the tool returns is not JSON"):
        call(Returns(answer))


def test_a_late_or_unwanted_call_does_not_start() -> None:
    cancelled = Deadline(5)
    cancelled.cancel()
    with pytest.raises(CancelledError):
        call(Returns({}), cancelled)
    with pytest.raises(ProviderTimeoutError):
        call(Returns({}), Deadline(0))
