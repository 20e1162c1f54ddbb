"""Agent node: asks a model, with a tool-calling loop, and reads JSON variables from its answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from django.utils.translation import gettext_noop

from agents.core.cited_answers import serialize_sources
from agents.core.nodes import NodeRun, register_node
from agents.core.parse_output import ModelOutput, parse_output, schema_error
from agents.core.prompts import fill_prompt, language_of, placeholders, prompt_file
from agents.core.spoken_text import SpokenText
from agents.core.state import FIELDS
from agents.flows.definition.node_configs import AgentNodeConfig
from agents.flows.definition.source_results import format_results, hits_of, listed_results
from agents.flows.definition.state import prompt_values, source_values, state_fields, user_query
from agents.flows.nodes.checked_answer import answer_writer, judge_text
from agents.flows.nodes.model_calls import ModelCalls, asked_again
from agents.flows.nodes.toolbox import Toolbox
from rag.core.errors import LimitError, NotFoundError, ProviderError
from rag.core.hits import Hit
from rag.core.ports import ChatRequest
from rag.core.types import Message

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
        try:
            return await _answered(state, config, run)
        except (ProviderError, LimitError) as error:
            if config.default is None:
                raise
            told = {"failed_node": run.node, "failure": str(error)}
            rest = {key: one for key, one in config.default.items() if key != _FOR_PEOPLE}
            return _update(ModelOutput(str(config.default.get(_FOR_PEOPLE) or ""), "", rest), told)


async def _answered(
    state: Mapping[str, Any], config: AgentNodeConfig, run: NodeRun
) -> dict[str, Any]:
    await _number_results(state, run)
    tools = Toolbox(config.tools, run, source_values(state))
    await tools.load()
    calls = ModelCalls(config, run, tools)
    is_json = _asks_for_json(config, run)
    request = _request(state, config, run)

    def spoken() -> SpokenText:
        writer = answer_writer(config, run, request.question)
        return SpokenText("json" if is_json else "text", writer=writer, tools=tools.names)

    asked = await calls.answer(request, spoken)
    if not is_json:
        text = await judge_text(asked.text.strip(), asked, config, run)
        return _update(ModelOutput(text), {}, tools.found)
    output = parse_output(asked.text)
    fault = _fault(config, output)
    if fault:
        asked = await calls.ask(asked_again(asked, fault), partial(SpokenText, "none"))
        repaired = parse_output(asked.text)
        fault = _fault(config, repaired)
        output = repaired if repaired.is_parsed else output
    text = await judge_text(output.response_content, asked, config, run, is_json=True)
    output = replace(output, response_content=text)
    return _update(output, {"parse_error": bool(fault)}, tools.found)


def _update(
    output: ModelOutput, extra: Mapping[str, Any], found: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    variables = {**output.variables, **extra}
    turn = {"role": "assistant", "content": output.response_content}
    return {
        "flow_msgs": [turn] if output.response_content else [],
        "edges_var": variables,
        **state_fields(variables),
        **({"rag_results": dict(found)} if found else {}),
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


def _request(state: Mapping[str, Any], config: AgentNodeConfig, run: NodeRun) -> ChatRequest:
    """Return what every model of the node is asked, without the options of any."""
    found = list(_found_hits(state.get("rag_results") or {}, run))
    messages = [
        Message("system", _filled(state, config, run)),
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
    filled = fill_prompt(prompt, values, missing="")
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
