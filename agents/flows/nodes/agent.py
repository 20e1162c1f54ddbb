"""Agent node: asks a model, with a tool-calling loop, and reads JSON variables from its answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.utils.translation import gettext_noop

from agents.core.cited_answers import number_of, serialize_sources
from agents.core.model_options import ModelConfig, model_options
from agents.core.nodes import NodeRun, register_node
from agents.core.parse_output import ModelOutput, parse_output, schema_error
from agents.core.prompts import fill_prompt, language_of, placeholders, prompt_file
from agents.core.source_configs import SourceToolConfig
from agents.core.state import FIELDS
from agents.core.tool_calls import example_call, parse_tool_calls
from agents.flows.definition.node_configs import AgentNodeConfig
from agents.flows.definition.source_results import (
    format_results,
    hits_of,
    listed_results,
    shape_results,
    tool_hits,
)
from agents.flows.definition.state import prompt_values, source_values, state_fields, user_query
from agents.flows.nodes.checked_answer import ModelAnswer, answer_writer, judge_text
from agents.flows.nodes.rag import ask_sources
from rag.core.errors import (
    ConfigurationError,
    InvalidInputError,
    LimitError,
    NotFoundError,
    ProviderError,
    RAGError,
    UnknownNameError,
)
from rag.core.hits import Hit
from rag.core.ports import ChatRequest
from rag.core.tools import ToolSpec
from rag.core.types import Message, ToolUse
from rag.stages.citing.verify import AnswerWriter

MAX_RESULT_CHARACTERS = 20_000
_QUESTION: Mapping[str, Any] = {
    "type": "object",
    "required": ["query"],
    "properties": {"query": {"type": "string", "description": "What to look for."}},
}


class Toolbox:
    """The tools of one visit; ``found`` keeps what its sources found, by their names."""

    def __init__(
        self, tools: Sequence[str | SourceToolConfig], run: NodeRun, values: Mapping[str, Any]
    ) -> None:
        self._run, self._values = run, values
        self._sources = {tool.name: tool for tool in tools if not isinstance(tool, str)}
        self.names = tuple(tool if isinstance(tool, str) else tool.name for tool in tools)
        self.found: dict[str, list[dict[str, Any]]] = {}

    def prompt(self) -> str:
        """Return what a model is told of its tools, empty without any; raise UnknownNameError."""
        if not self.names:
            return ""
        lines = []
        for name in self.names:
            spec = self._spec(name)
            schema = json.dumps(spec.parameters, ensure_ascii=False)
            lines.append(f"- {spec.name}: {spec.description} {schema}")
        rules = {"example": example_call(self._spec(self.names[0]))}
        return fill_prompt(prompt_file("use_tools"), rules) + "\n".join(lines)

    async def call(self, asked: ToolUse) -> str:
        """Return a tool's answer as a text for the model; what failed is an answer too.

        Raises ConfigurationError, and ProviderError of a source with ``on_error: fail``.
        """
        name, source = asked.name, self._sources.get(asked.name)
        try:
            if name not in self.names or asked.fault:
                raise UnknownNameError("tool", asked.fault or name, self.names)
            if source:
                result = await self._ask(source, asked.arguments)
            else:
                result = await self._run.call_tool(name, asked.arguments)
        except ConfigurationError:
            raise
        except RAGError as error:
            if source and source.on_error == "fail" and isinstance(error, ProviderError):
                raise
            # A model can mend wrong arguments, or answer without the tool.
            result = {"error": str(error)}
            await self._run.emit(
                "tool", {"tool": name, "arguments": asked.arguments, "error": error.as_dict()}
            )
        text = json.dumps(result, ensure_ascii=False)
        return f"{name}: {text[:MAX_RESULT_CHARACTERS]}{self._cited_as(name, result)}"

    def _cited_as(self, name: str, result: Mapping[str, Any]) -> str:
        """Return by which numbers the model cites what a tool found or worked out."""
        hits = tool_hits(name, result)
        ids = dict.fromkeys(filter(None, map(self._run.passages.doc_id, hits)))
        marks = ", ".join(f"[{number_of(one)}]" for one in ids)
        return f"\nIts results are cited as {marks}, in their order." if marks else ""

    def _spec(self, name: str) -> ToolSpec:
        source = self._sources.get(name)
        if source is None:
            return self._run.tool_spec(name)
        return ToolSpec(name, source.description, _QUESTION)

    async def _ask(self, source: SourceToolConfig, arguments: Mapping[str, Any]) -> dict[str, Any]:
        text = arguments.get("query")
        if not isinstance(text, str) or not text.strip() or arguments.keys() != {"query"}:
            raise InvalidInputError(
                "The tool {name} takes a text as “query” and nothing else.", name=source.name
            )
        values = {**self._values, "user_query": text}
        (outcome,) = await ask_sources(self._run, [source], text, values)
        if outcome.error is not None:
            raise ProviderError(
                "The source “{name}” failed: {reason}", name=source.name, reason=outcome.message
            ) from outcome.error
        results = shape_results(outcome.hits, "structured")
        self.found[source.name] = [*self.found.get(source.name, []), *results]
        passages = self._run.passages.number(hits_of(source.name, results, outcome.hits))
        event = {"tool": source.name, "arguments": {"query": text}, "answer": {"results": results}}
        more = {
            "duration_ms": round(outcome.duration_ms, 1),
            "passages": serialize_sources(passages),
        }
        await self._run.emit("tool", {**event, **more})
        return {"results": results}


MAX_CALLS = 8
# What a server answers with that does not know an option of the request.
_REFUSED = (400, 422)
_FORM = ("response_format", "response_mime_type", "response_json_schema")


# What an answer is shown and checked by, made anew for each; None: it is not for people.
NewWriter = Callable[[], AnswerWriter | None]


async def run_tool_loop(
    name: str, request: ChatRequest, tools: Toolbox, run: NodeRun, new_writer: NewWriter
) -> ModelAnswer:
    """Return the first answer that calls no tool.

    A call that fails is told to the model. Raises LimitError after eight calls.
    """
    if tools.names:
        # The form of the final answer does not allow for calls.
        request = _without_form(request)
    for _ in range(MAX_CALLS + 1):
        asked = await ask_model_once(name, request, run, new_writer)
        calls = parse_tool_calls(asked.text, tools.names, is_lenient=True) if tools.names else None
        if not calls:
            return asked
        results = [await tools.call(call) for call in calls]
        turns = [Message("assistant", asked.text), Message("user", "\n".join(results))]
        request = replace(asked.request, messages=[*asked.request.messages, *turns])
    raise LimitError(
        "The node “{name}” called tools {n} times without an answer.",
        hint="Say in its prompt when to stop.",
        name=run.node,
        n=MAX_CALLS,
    )


def no_writer() -> None:
    """Return what checks an answer that is not for people: nothing."""


async def ask_model_once(
    name: str, request: ChatRequest, run: NodeRun, new_writer: NewWriter = no_writer
) -> ModelAnswer:
    """Return one answer; a server that refuses the wished form is asked without it."""
    writer = new_writer()
    try:
        return ModelAnswer((await run.ask_model(name, request, writer)).text, request, writer)
    except ProviderError as error:
        plain = _without_form(request)
        if error.params.get("status") not in _REFUSED or plain == request:
            raise
        writer = new_writer()
        return ModelAnswer((await run.ask_model(name, plain, writer)).text, plain, writer)


def _without_form(request: ChatRequest) -> ChatRequest:
    if not any(name in request.options for name in _FORM):
        return request
    return replace(
        request, options={key: one for key, one in request.options.items() if key not in _FORM}
    )


# A prompt that shows or names JSON wants it.
_JSON = re.compile(r"json|\{\s*\"", re.I)
_FOR_PEOPLE = "response_content"
_ROLES = ("system", "user", "assistant")


@register_node
class AgentNode:
    """Lets a model answer, analyse or decide."""

    name = "agent"
    label = gettext_noop("Model")
    Config = AgentNodeConfig

    async def run(
        self, state: Mapping[str, Any], config: AgentNodeConfig, run: NodeRun
    ) -> dict[str, Any]:
        """Return the answer as a turn of ``flow_msgs`` and its variables as ``edges_var``.

        What data sources among its tools found is in ``rag_results``.

        An answer that is no JSON although JSON was asked for gets one chance to be repaired; then
        it is the response as it stands, and ``parse_error`` is true.
        """
        name = config.model.id if config.model else ""
        await _number_results(state, run)
        tools = Toolbox(config.tools, run, source_values(state))
        is_json = _asks_for_json(config, run)
        request = _request(state, config, run, tools)
        new_writer = no_writer if is_json else partial(answer_writer, config, run, request.question)
        asked = await run_tool_loop(name, request, tools, run, new_writer)
        if not is_json:
            text = await judge_text(asked.text.strip(), asked, config, run)
            return _update(ModelOutput(text), {}, tools)
        output = parse_output(asked.text)
        fault = _fault(config, output)
        if fault:
            asked = await ask_model_once(name, _again(asked, fault), run)
            repaired = parse_output(asked.text)
            fault = _fault(config, repaired)
            output = repaired if repaired.is_parsed else output
        text = await judge_text(output.response_content, asked, config, run, is_json=True)
        output = replace(output, response_content=text)
        return _update(output, {"parse_error": bool(fault)}, tools)


def _update(output: ModelOutput, extra: Mapping[str, Any], tools: Toolbox) -> dict[str, Any]:
    variables = {**output.variables, **extra}
    turn = {"role": "assistant", "content": output.response_content}
    return {
        "flow_msgs": [turn] if output.response_content else [],
        "edges_var": variables,
        **state_fields(variables),
        **({"rag_results": tools.found} if tools.found else {}),
    }


def _asks_for_json(config: AgentNodeConfig, run: NodeRun) -> bool:
    return bool(config.output_schema) or bool(_JSON.search(_prompt(config, run)))


def _prompt(config: AgentNodeConfig, run: NodeRun) -> str:
    if config.prompt not in run.prompts:
        raise NotFoundError("There is no prompt “{path}”.", path=config.prompt)
    return run.prompts[config.prompt]


def _fault(config: AgentNodeConfig, output: ModelOutput) -> str:
    if not output.is_parsed:
        return "it holds no JSON object."
    texts = {"response_content": output.response_content}
    if output.reasoning_summary:
        texts["reasoning_summary"] = output.reasoning_summary
    given = {key: one for key, one in texts.items() if one}
    return schema_error(config.output_schema or {}, {**output.variables, **given})


def _again(asked: ModelAnswer, fault: str) -> ChatRequest:
    question = fill_prompt(prompt_file("repair_json"), {"reason": fault})
    turns = [Message("assistant", asked.text or "-"), Message("user", question)]
    return replace(asked.request, messages=[*asked.request.messages, *turns])


def _request(
    state: Mapping[str, Any], config: AgentNodeConfig, run: NodeRun, tools: Toolbox
) -> ChatRequest:
    model = config.model or ModelConfig(provider="default", name="default")
    found = list(_found_hits(state.get("rag_results") or {}, run))
    messages = [
        Message("system", _filled(state, config, run) + tools.prompt()),
        *(
            Message(turn["role"], turn["content"])
            for turn in state.get("history_messages") or []
            if turn["role"] in _ROLES
        ),
        Message("user", user_query(state)),
    ]
    return ChatRequest(
        messages=messages,
        question=user_query(state),
        passages=[(doc_id, hit.text) for doc_id, hit in found],
        table_headers=[hit.table_header for _, hit in found],
        temperature=model.temperature,
        max_tokens=model.max_tokens,
        timeout_s=min(model.timeout, max(0.001, run.deadline.remaining_s)),
        options=model_options(
            run.model_id(config.model.id if config.model else ""),
            config.model,
            config.output_schema,
        ),
    )


def _filled(state: Mapping[str, Any], config: AgentNodeConfig, run: NodeRun) -> str:
    """Return the prompt with everything that it names; results are formatted only when named."""
    prompt, is_shown = _prompt(config, run), False
    values = prompt_values(state)
    for name in placeholders(prompt):
        key = "rag_results" if name == "rag_context" else name
        found = state.get(key)
        if name == "rag_context" or (name not in FIELDS and isinstance(found, dict)):
            values[name] = format_results(
                found or {}, config.context_tokens, run.count_tokens, run.passages
            )
            is_shown = is_shown or bool(values[name])
    filled = fill_prompt(prompt, values)
    return filled + _citing_rule(state, config, run) if is_shown else filled


def _citing_rule(state: Mapping[str, Any], config: AgentNodeConfig, run: NodeRun) -> str:
    """Return how passages are cited; nothing for a node that only decides."""
    asked = f"{_prompt(config, run)} {json.dumps(config.output_schema)}"
    if _asks_for_json(config, run) and _FOR_PEOPLE not in asked:
        return ""
    return "\n\n" + prompt_file(f"cite_flow_{language_of(user_query(state))}").strip()


async def _number_results(state: Mapping[str, Any], run: NodeRun) -> None:
    """Number what nodes of other types left in the state without doing so themselves."""
    groups = [found for key, found in state.items() if key == "rag_results" or key not in FIELDS]
    hits = [
        hit
        for found in groups
        if isinstance(found, dict)
        for name, results in listed_results(found).items()
        for hit in hits_of(name, results)
    ]
    if new := [hit for hit in hits if not run.passages.doc_id(hit)]:
        await run.emit("passages", {"passages": serialize_sources(run.passages.number(new))})


def _found_hits(results: Mapping[str, Any], run: NodeRun) -> Iterator[tuple[str, Hit]]:
    """Yield what was found, with its ids, for models that answer from it alone."""
    # What sources show of them has no header of a table; one that has lost its text gets none.
    numbered = {passage.doc_id: passage.hit for passage in run.passages.all}
    for name, found in results.items():
        for hit in hits_of(name, found if isinstance(found, list) else []):
            if doc_id := run.passages.doc_id(hit):
                known = numbered[doc_id]
                yield doc_id, known if known.text == hit.text else hit
