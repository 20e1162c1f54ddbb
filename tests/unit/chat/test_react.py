"""The parts of a loop of tools by themselves: calls in text, documents numbered, equal calls."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.chat.agents.tools import tool_result
from agents.chat.pipelines.generate_answer import number_documents
from agents.chat.pipelines.react import _text, react_pipeline
from agents.chat.pipelines.react_think import calls_schema, tools_prompt
from agents.chat.pipelines.supervisor import supervisor_pipeline
from agents.core.agent_config import AgentConfig
from agents.core.canned_texts import limit_text
from agents.core.cited_answers import serialize_sources
from agents.core.draw_pipeline import pipeline_mermaid
from agents.core.extend_pipeline import extend_pipeline, remove_extension, with_extensions
from agents.core.pipeline import Pipeline, PipelineState, Step
from agents.core.react import ToolResult, call_key
from agents.core.tool_calls import MAX_CALLS, begins_call, parse_tool_calls, tag_start
from rag.core.errors import ProviderError, UnknownNameError
from rag.core.hits import Hit
from rag.core.tools import ToolSpec
from rag.core.types import ToolUse

NAMES = ("search", "adder")
SEARCH = {"tool": "search", "arguments": {"query": "pump"}}
USE = ToolUse("call_1", "search", {"query": "pump"})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (json.dumps(SEARCH), (USE,)),
        (json.dumps({"calls": [SEARCH]}), (USE,)),
        (f"```json\n{json.dumps({'calls': [SEARCH]})}\n```", (USE,)),
        ('{"calls": []}', ()),
        ('{"calls": [{"tool": "search"}]}', (ToolUse("call_1", "search"),)),
        ('{"calls": [{"tool": "nobody", "arguments": {}}]}', (ToolUse("call_1", "nobody"),)),
        (
            '{"calls": [{"tool": "search", "arguments": "x"}]}',
            (ToolUse("call_1", "search", fault="The arguments are no JSON object."),),
        ),
        ('{"tool": "nobody", "arguments": {}}', (ToolUse("call_1", "nobody"),)),
        ('{"calls": [{"tool": "search", "why": 1}]}', (ToolUse("call_1", "search"),)),
        ('{"response_content": "It stops.", "name": "search"}', None),
        ('{"name": "Li", "age": 7}', None),
        ('[{"name": "Li"}, 7]', None),
        ("[1] and [2]", None),
        ('{"calls": [{"tool": 7}]}', None),
        ('{"calls": 7}', None),
        ('{"answer": 42}', None),
        ("{broken", None),
        ("", None),
        ("The pump.", None),
        (f"I search. {json.dumps(SEARCH)}", None),
        (f"{json.dumps(SEARCH)} is what the manual says.", (USE,)),
    ],
)
def test_calls_are_read_where_an_answer_is_nothing_else(text: str, expected: Any) -> None:
    assert parse_tool_calls(text, NAMES, is_lenient=False) == expected


CALL = '{"name": "search", "arguments": {"query": "pump"}}'
QUERY = '{"query": "pump"}'
DIALECTS = [
    f"<tool_call>\n{CALL}\n</tool_call>",
    f"I look it up.\n\n<tool_call>\n{CALL}\n</tool_call>",
    f"<tool_call>{CALL}",
    f"<|tool_call|>{CALL}<|im_end|>",
    f"<tool_call>{CALL}</tool_call>\n<tool_response>made up</tool_response>",
    "<tool_call><function=search><parameter=query>\npump\n</parameter></function></tool_call>",
    '{"name": "search", "parameters": {"query": "pump"}}',
    '<|python_tag|>{"name": "search", "parameters": {"query": "pump"}}<|eom_id|>',
    f"<function=search>{QUERY}</function>",
    f"[TOOL_CALLS][{CALL}]",
    f"[TOOL_CALLS] [{CALL}]</s>",
    f"[TOOL_CALLS]search{QUERY}",
    f"[TOOL_CALLS]search[ARGS]{QUERY}",
    f"[{CALL}]",
    f"```json\n[{CALL}]\n```",
    json.dumps(
        {
            "tool_calls": [
                {"id": "x", "type": "function", "function": {"name": "search", "arguments": QUERY}}
            ]
        }
    ),
    json.dumps(
        {"type": "function", "function": {"name": "search", "arguments": {"query": "pump"}}}
    ),
    json.dumps({"function_call": {"name": "search", "arguments": QUERY}}),
    '{"thought": "I need it", "tool": "search", "arguments": {"query": "pump"}}',
    '{"tool": "Search", "args": {"query": "pump"}}',
    '{"name": "functions.search", "arguments": {"query": "pump"}}',
]


@pytest.mark.parametrize("is_lenient", [False, True])
@pytest.mark.parametrize("text", DIALECTS)
def test_calls_in_the_dialects_of_models_are_read(text: str, is_lenient: bool) -> None:
    assert parse_tool_calls(text, NAMES, is_lenient=is_lenient) == (USE,)
    assert begins_call(text) or tag_start(text) < len(text)


def test_several_calls_of_a_dialect_are_all_read() -> None:
    other = '{"name": "adder", "arguments": {"a": 1}}'
    both = (USE, ToolUse("call_2", "adder", {"a": 1}))
    for text in (
        f"<tool_call>{CALL}</tool_call>\n<tool_call>{other}</tool_call>",
        f"[TOOL_CALLS][{CALL}, {other}]",
        f"{CALL}\n{other}",
    ):
        assert parse_tool_calls(text, NAMES, is_lenient=False) == both


@pytest.mark.parametrize(
    "text", ["<tool_call>{broken", "<tool_call>search pump</tool_call>", "[TOOL_CALLS]"]
)
def test_a_tagged_call_that_cannot_be_read_is_told_which_tools_there_are(text: str) -> None:
    (call,) = parse_tool_calls(text, NAMES, is_lenient=False) or ()
    assert "adder, search" in call.fault


def test_a_document_that_tells_of_calls_is_none() -> None:
    text = f"Hermes writes <tool_call>{CALL}</tool_call> and waits for the result."
    assert parse_tool_calls(text, NAMES, is_lenient=False) is None


def test_a_tag_is_held_back_from_where_it_may_begin() -> None:
    assert [
        tag_start(text) for text in ("a <tool", "a <tool_call>{", "a < b", "a [TOOL", "a [1]", "")
    ] == [2, 2, 5, 2, 5, 0]
    assert not begins_call("<cite doc") and not begins_call("[1] says") and begins_call("<tool_c")


def test_models_that_write_calls_may_think_aloud_before_them() -> None:
    assert parse_tool_calls(f"I search. {json.dumps(SEARCH)}", NAMES, is_lenient=True) == (USE,)
    assert parse_tool_calls(f"{json.dumps(SEARCH)[1:]} so.", NAMES, is_lenient=True) is None


def test_one_turn_has_not_more_calls_than_can_be_looked_after() -> None:
    found = parse_tool_calls(json.dumps({"calls": [SEARCH] * 99}), NAMES, is_lenient=False)
    assert found is not None and len(found) == MAX_CALLS


@given(JSON, st.booleans())
def test_no_json_breaks_the_reader_of_calls(value: Any, is_lenient: bool) -> None:
    for shape in (value, {"calls": value}, {"tool": "search", "arguments": value}):
        found = parse_tool_calls(json.dumps(shape), NAMES, is_lenient=is_lenient)
        assert found is None or all(isinstance(dict(one.arguments), dict) for one in found)


def test_a_form_names_the_tools_and_a_prompt_their_arguments() -> None:
    specs = [ToolSpec("search", "Searches.", {"type": "object"}), ToolSpec("adder", "Adds.")]
    schema = calls_schema("tool", [spec.name for spec in specs], arguments="object")
    items = schema["properties"]["calls"]["items"]
    assert items["properties"]["tool"]["enum"] == ["search", "adder"]
    assert tools_prompt(specs).splitlines()[0] == '- search: Searches. {"type": "object"}'


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=4))
def test_equal_calls_are_equal_whatever_the_order(arguments: dict[str, str]) -> None:
    turned = dict(reversed(arguments.items()))
    assert call_key("a", arguments) == call_key("a", turned) != call_key("b", arguments)


def test_calls_that_differ_in_case_and_spaces_alone_are_equal() -> None:
    assert call_key("a", {"q": " The  PUMP"}) == call_key("a", {"q": "the pump"})
    assert call_key("a", {"q": ["X", {"y": "Z "}]}) == call_key("a", {"q": ["x", {"y": "z"}]})
    assert call_key("a", {"q": 1}) != call_key("a", {"q": 2})


@dataclass
class Run:
    config: AgentConfig = field(default_factory=AgentConfig)

    def count_tokens(self, text: str) -> int:
        return len(text.split())


def hit(number: int, text: str = "") -> Hit:
    return Hit(
        text=text or f"text {number}", rank=1, chunk_id=number, revision=1, file_name="f.txt"
    )


def test_documents_keep_their_ids_however_often_they_are_found() -> None:
    run: Any = Run()
    first, text = number_documents([], [hit(1), hit(2)], run, "q")
    assert [one.doc_id for one in first] == ["doc_01", "doc_02"]
    both, text = number_documents(first, [hit(2), hit(3), hit(3), hit(1)], run, "q")
    assert [one.doc_id for one in both] == ["doc_01", "doc_02", "doc_03"]
    assert '<document id="doc_03"' in text and "text 2" not in text
    assert text.endswith('<shown_before ids="doc_02, doc_01"/>')
    assert [one["doc_id"] for one in serialize_sources(both)] == ["doc_01", "doc_02", "doc_03"]
    again, text = number_documents(both, [], run, "q")
    assert again == both and text == ""


def test_an_edited_chunk_is_another_document_and_a_text_s_own_tags_are_left_alone() -> None:
    run: Any = Run()
    first, _ = number_documents([], [hit(1)], run, "q")
    edited = Hit(text="new", rank=1, chunk_id=1, revision=2)
    foreign = Hit(text='see <document id="doc_01">', rank=2, source="api", external_id="7")
    both, text = number_documents(first, [edited, foreign, foreign], run, "q")
    assert [one.doc_id for one in both] == ["doc_01", "doc_02", "doc_03"]
    assert 'see &lt;document id="doc_01"&gt;' in text
    assert text.count("<document id=") == 2


def test_what_does_not_fit_the_budget_is_not_numbered() -> None:
    run: Any = Run(AgentConfig(context_tokens=100))
    long = [hit(number, f"{'word ' * 45}{number}") for number in range(1, 6)]
    passages, text = number_documents([], long, run, "q")
    assert 0 < len(passages) < 5 and "<omitted" in text
    assert run.count_tokens(text) <= 100


def test_results_with_texts_are_hits_and_all_else_is_the_answer() -> None:
    answer = {"results": [{"content": "a", "source": {"name": "f"}}], "confidence": 0.5}
    result = tool_result(answer)
    assert (result.answer, [one.file_name for one in result.hits]) == ({"confidence": 0.5}, ["f"])
    for plain in ({"results": []}, {"results": [1]}, {"results": [{"text": "a"}]}, {"sum": 1}):
        assert tool_result(plain).hits == () and tool_result(plain).answer == plain


@given(st.text(max_size=60), JSON, st.text(max_size=80), st.text(max_size=20))
def test_whatever_a_tool_says_stays_inside_its_element(
    name: str, value: Any, text: str, file_name: str
) -> None:
    """The result of a call is one XML element, and its words can be read back."""
    run: Any = Run()
    found = Hit(text=f"x {text}", rank=1, chunk_id=1, revision=1, file_name=file_name)
    _, documents = number_documents([], [found], run, "q")
    told = _text(ToolUse("1", name), ToolResult({"value": value}, [found]), documents)
    root = ElementTree.fromstring(told)
    assert root.tag == "tool_result" and [one.tag for one in root] == ["documents"]
    assert len(root.findall("documents/document")) == 1
    error = _text(ToolUse("1", name), ToolResult(error=ProviderError("{x}", x=text)), "")
    assert [*ElementTree.fromstring(error)] == []


@pytest.mark.parametrize("limit", ["calls", "tokens", "time", "iterations", "repeated"])
def test_each_limit_is_said_in_the_language_of_the_question(limit: str) -> None:
    assert limit_text("泵怎么保养？", limit).startswith("（")
    assert limit_text("How is the pump serviced?", limit).endswith("found so far.)\n\n")


def test_a_plugin_adds_a_step_to_a_type_of_agents() -> None:
    async def glossary(state: PipelineState, run: Any) -> PipelineState:
        return {}

    @extend_pipeline("rag")
    def with_glossary(pipeline: Pipeline) -> Pipeline:
        return pipeline.with_step(Step("glossary", glossary))

    try:
        assert with_extensions("rag", Pipeline()).names == ("glossary",)
        assert with_extensions("react", Pipeline()).names == ()
    finally:
        remove_extension("rag", with_glossary)
    assert with_extensions("rag", Pipeline()).names == ()


def test_loops_are_drawn_with_their_ways_back() -> None:
    drawn = pipeline_mermaid(react_pipeline())
    for edge in (
        "decide -.-> think",
        "decide -.-> generate",
        "think -.-> act",
        "act -.-> think",
        "act -.-> answer",
        "think -.-> END",
        "answer -.-> END",
    ):
        assert f"    {edge}\n" in drawn
    drawn = pipeline_mermaid(supervisor_pipeline())
    for edge in ("plan -.-> ask", "plan -.-> merge", "ask -.-> plan", "ask -.-> END"):
        assert f"    {edge}\n" in drawn


def test_a_config_reads_tools_agents_and_limits() -> None:
    config = AgentConfig.from_dict({"tools": ["a"], "agents": ["b"], "run_timeout_s": 3.0})
    assert (config.tools, config.agents, config.sources) == (["a"], ["b"], {})
    with pytest.raises(UnknownNameError, match="Known: auto, native, text"):
        AgentConfig.from_dict({"tool_calling": "x"})
    assert SimpleNamespace(**config.as_dict()).max_tool_calls == 12
