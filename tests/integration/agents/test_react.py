"""React agents from end to end: loops of tools that end, find, cite, and tell what they do."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from agents.models import Agent
from rag.core.errors import ProviderError
from rag.core.options import option
from rag.core.plugins import PLUGINS
from rag.core.ports import ChatRequest
from rag.core.tools import ToolCall
from tests.integration.agent_world import CITED, AgentWorld, world
from tests.integration.calling_model import Calling, call, calls

__all__ = ["world"]
FILTER = "The filter of the pump is replaced once a year. It costs 45 yuan."
YEARLY = f'Yearly: <cite doc_id="doc_02" quote="{FILTER}">once a year</cite>.'
SEARCH = calls(call("vector_retrieve", query="filter of the pump replaced", top_k=1))
WRONG = '<cite doc_id="doc_01" quote="The pump is serviced every 90 days.">Every 90 days.</cite> '
ASKED = "How often is the pump serviced?"


@dataclass
class Adder:
    """A tool for tests: adds, fails, breaks, or sleeps until it is told to stop."""

    name, label = "adder", "Adder"
    description = "Adds numbers."

    @dataclass(frozen=True, kw_only=True)
    class Options:
        a: int = option(help="One.")
        how: str = option("add", help="What to do.")

    def run(self, call: ToolCall) -> dict[str, Any]:
        how = call.arguments.how
        if how == "fail":
            raise ProviderError("The adder is out of {what}.", what="fingers")
        if how == "break":
            raise ZeroDivisionError("secret")
        if how == "hang":
            while not call.deadline.is_cancelled:
                call.deadline.check()
        return {"sum": call.arguments.a + 1}


@pytest.fixture
def react(world: AgentWorld, monkeypatch: pytest.MonkeyPatch) -> AgentWorld:
    """The world with a react agent that always thinks, and a tool that adds."""
    found = PLUGINS._of("tool")
    monkeypatch.setitem(found, "adder", Adder)
    world.agent.agent_type = Agent.Type.REACT
    world.agent.max_iterations = 4
    world.set(enable_fast_path=False, default_top_k=1, tools=["vector_retrieve", "adder"])
    return world


@pytest.fixture(params=["langgraph", "plain"])
def engine(request: Any, settings: Any) -> str:
    settings.AGENTS = {**settings.AGENTS, "ENGINE": request.param}
    return str(request.param)


def shown(request: ChatRequest) -> str:
    return request.messages[-1].content


def test_tools_are_called_and_what_they_found_is_cited(react: AgentWorld, engine: str) -> None:
    chat = react.use(Calling(SEARCH, YEARLY))
    told = react.ask(ASKED)
    assert told.of("tool_call") == [
        {
            "id": "1.1",
            "tool": "vector_retrieve",
            "arguments": {"query": "filter of the pump replaced", "top_k": 1},
        }
    ]
    (result,) = told.of("tool_result")
    assert (result["n_results"], result["documents"], result["files"]) == (
        1,
        ["doc_02"],
        ["pump manual.txt"],
    )
    assert told.text == "Yearly: once a year[1]."
    row = told.row
    assert (row.status, row.outcome, row.content) == ("done", "answered", told.text)
    assert [one["verdict"] for one in row.citations] == ["verified"]
    assert [one["doc_id"] for one in row.sources] == ["doc_01", "doc_02"]
    assert '<document id="doc_02"' in shown(chat.requests[1])
    assert row.usage == {"input_tokens": 20, "output_tokens": 10}
    kinds = [event.kind for event in told.events]
    order = ("sources", "tool_call", "tool_result", "delta", "citation", "usage", "done")
    assert [kinds.index(kind) for kind in order] == sorted(kinds.index(kind) for kind in order)


def test_the_model_is_offered_the_agent_s_tools_and_no_others(react: AgentWorld) -> None:
    react.set(tools=["vector_retrieve", "grade"])
    chat = react.use(Calling(CITED))
    react.ask(ASKED)
    (request,) = chat.requests
    assert [spec.name for spec in request.tools] == ["vector_retrieve", "grade"]
    assert "model" not in request.tools[1].parameters["properties"]


def test_calls_of_one_turn_run_side_by_side(
    react: AgentWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    both = threading.Barrier(2, timeout=5)

    class Meeting(Adder):
        def run(self, call: ToolCall) -> dict[str, Any]:
            both.wait()
            return {"sum": call.arguments.a + 1}

    monkeypatch.setitem(PLUGINS._of("tool"), "adder", Meeting)
    react.use(Calling(calls(call("adder", a=1), call("adder", "c2", a=2)), CITED))
    told = react.ask(ASKED)
    assert [one["text"] for one in told.of("tool_result")] == ['{"sum": 2}', '{"sum": 3}']
    assert told.text == "Every 30 days.[1]"


def test_each_call_is_answered_with_its_id(react: AgentWorld) -> None:
    made = calls(call("adder", "x1", a=1), call("adder", "x2", a=2))
    chat = react.use(Calling(made, CITED))
    react.ask(ASKED)
    asked, first, second = chat.requests[1].messages[-3:]
    assert asked.tool_calls == made
    assert [one.tool_calls[0].id for one in (first, second)] == ["x1", "x2"]
    assert (
        first.role == "tool" and "{&quot;sum" not in first.content and '"sum": 2' in first.content
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"a": 1, "how": "fail"}, "The adder is out of fingers."),
        ({"a": "one"}, "The option “a” of adder is 'one'"),
        ({}, "adder needs the option “a”"),
        ({"a": 1, "b": 2}, "Unknown option “adder.b”"),
        ({"a": 1, "how": "break"}, "The tool adder has a fault (ZeroDivisionError)"),
    ],
)
def test_a_tool_s_error_is_given_back_to_the_model(
    react: AgentWorld, arguments: dict[str, Any], words: str
) -> None:
    chat = react.use(Calling(calls(call("adder", **arguments)), CITED))
    told = react.ask(ASKED)
    assert words in shown(chat.requests[1]) and "secret" not in str(told.events)
    (result,) = told.of("tool_result")
    assert result["is_error"] and result["error"]["message"]
    assert told.text == "Every 30 days.[1]"


def test_an_unknown_tool_is_told_which_ones_there_are(react: AgentWorld) -> None:
    chat = react.use(Calling(calls(call("delete_store", name="manuals")), CITED))
    told = react.ask(ASKED)
    assert "Known: adder, vector_retrieve" in shown(chat.requests[1])
    assert told.of("tool_result")[0]["is_error"]


def test_a_call_made_before_is_not_made_again(react: AgentWorld) -> None:
    again = calls(
        call("adder", a=1), call("vector_retrieve", query=" FILTER of the  pump replaced", top_k=1)
    )
    chat = react.use(Calling(SEARCH, again, CITED))
    told = react.ask(ASKED)
    first, second, third = told.of("tool_result")
    assert third["error"]["message"] == "This was called before with the same arguments."
    assert not first["is_error"] and not second["is_error"]
    assert "The result is above" in shown(chat.requests[2])
    assert told.row.outcome == "answered"


def test_a_turn_of_nothing_but_repetitions_ends_the_loop(react: AgentWorld) -> None:
    chat = react.use(Calling(SEARCH, SEARCH, YEARLY))
    told = react.ask(ASKED)
    assert told.text.startswith(
        "(Searching on brought nothing new; this is what was found so far.)"
    )
    assert told.text.endswith("once a year[1].") and told.row.outcome == "partial"
    assert chat.requests[2].tools == () and "No tool can be called" in shown(chat.requests[2])
    assert told.row.notices[-1]["limit"] == "repeated"


@pytest.mark.parametrize(
    ("config", "limit", "words"),
    [
        ({"max_tool_calls": 2}, "calls", "No more calls of tools are allowed"),
        ({"run_tokens": 500}, "tokens", "The tokens are used up"),
        ({}, "iterations", "No more turns of thought are allowed"),
    ],
)
def test_a_limit_ends_the_loop_with_what_was_found(
    react: AgentWorld, config: dict[str, Any], limit: str, words: str, engine: str
) -> None:
    def more(request: ChatRequest) -> Any:
        return calls(
            call("adder", a=len(request.messages)), call("adder", a=1000 + len(request.messages))
        )

    def turn(request: ChatRequest) -> Any:
        return more(request) if request.tools else CITED

    react.set(**config)
    chat = Calling(turn)
    chat.tokens = (400, 200) if limit == "tokens" else (10, 5)
    react.use(chat)
    told = react.ask(ASKED)
    assert words in told.text and told.text.endswith("Every 30 days.[1]")
    assert (told.row.status, told.row.outcome) == ("done", "partial")
    assert [one["limit"] for one in told.of("notice")] == [limit]
    assert len(chat.requests) == {"calls": 2, "tokens": 2, "iterations": 5}[limit]
    made = [one for one in told.of("tool_result") if one["is_made"]]
    assert len(made) == {"calls": 2, "tokens": 2, "iterations": 8}[limit]


def test_calls_beyond_the_limit_are_refused_and_answered(react: AgentWorld) -> None:
    react.set(max_tool_calls=1)
    chat = react.use(Calling(calls(call("adder", a=1), call("adder", "c2", a=2)), CITED))
    told = react.ask(ASKED)
    assert [one["is_made"] for one in told.of("tool_result")] == [True, False]
    assert "No more calls are allowed" in chat.requests[1].messages[-2].content


def test_a_tool_that_hangs_is_left_and_the_time_of_a_run_ends_it(react: AgentWorld) -> None:
    react.set(tool_timeout_s=0.15)
    chat = react.use(Calling(calls(call("adder", a=1, how="hang")), CITED))
    told = react.ask(ASKED)
    assert "within 0.15 s" in shown(chat.requests[1]) and told.row.outcome == "answered"
    react.set(run_timeout_s=0.3, tool_timeout_s=20.0)
    react.use(Calling(calls(call("adder", a=1, how="hang")), CITED))
    told = react.ask(ASKED)
    assert told.text.startswith("(The time is used up; ") and told.row.outcome == "partial"
    assert told.text.endswith("Every 30 days.[1]")


def test_a_model_that_thinks_too_long_is_cut_and_says_so(react: AgentWorld) -> None:
    react.set(run_timeout_s=0.2)
    chat = react.use(Calling("slow words to come", CITED))
    chat.pause_s = 0.3
    told = react.ask(ASKED)
    assert told.text.startswith("(") and told.text.endswith("Every 30 days.[1]")
    assert [one["text"] for one in told.of("replace")] == [""]
    assert told.row.outcome == "partial" and told.row.content == told.text


def test_words_before_a_call_are_taken_back(react: AgentWorld) -> None:
    chat = react.use(Calling(("Let me look that up first.", SEARCH), YEARLY))
    told = react.ask(ASKED)
    assert told.text == "Yearly: once a year[1]."
    assert len(told.of("replace")) == 1
    assert chat.requests[1].messages[-2].content == "Let me look that up first."


@pytest.mark.parametrize("rule", ["mark", "drop", "repair"])
def test_a_quote_that_no_source_holds_is_treated_by_rule(react: AgentWorld, rule: str) -> None:
    react.set(citation_failure=rule)
    chat = react.use(Calling(SEARCH, WRONG + YEARLY, YEARLY))
    told = react.ask(ASKED)
    expected = {
        "mark": "Every 90 days.[1] Yearly: once a year[2].",
        "drop": "Yearly: once a year[1].",
        "repair": "Yearly: once a year[1].",
    }
    assert told.text == told.row.content == expected[rule]
    assert len(chat.requests) == (3 if rule == "repair" else 2)


def test_a_failed_model_is_an_error_and_no_answer(react: AgentWorld) -> None:
    react.use(Calling(SEARCH, ProviderError("out of memory")))
    told = react.ask(ASKED)
    assert (told.last.kind, told.last.data["code"], told.text) == ("error", "provider", "")
    assert told.row.status == "error"


def test_stopping_stops_the_loop(react: AgentWorld) -> None:
    from agents.chat.answers.control import start_answer, stop_answer
    from agents.chat.answers.create import MessageRequest
    from agents.chat.answers.worker import AnswerWorker
    from tests.integration.agent_world import settled

    async def ask_and_stop() -> list[str]:
        order = MessageRequest(agent=react.agent, scope=react.scope, message=ASKED)
        chat = await start_answer(order=order)
        kinds = []
        async for event in AnswerWorker.replay(chat.answer.pk):
            kinds.append(event.kind)
            if event.kind == "tool_call":
                await stop_answer(key=str(chat.answer.key), scope=react.scope)
        await settled()
        return kinds

    model = react.use(Calling(calls(call("adder", a=1, how="hang")), CITED))
    assert asyncio.run(ask_and_stop())[-1] == "stopped"
    assert len(model.requests) == 1
