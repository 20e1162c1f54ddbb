"""JSON answers of nodes that ask a model for values alone: asked, checked, repaired once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import Field

from agents.core.model_options import ModelConfig
from agents.core.nodes import NodeRun
from agents.core.parse_output import ModelOutput, parse_output, schema_error
from agents.core.prompts import fill_prompt, language_of, prompt_file
from agents.core.spoken_text import SpokenText
from agents.flows.definition.node_configs import AgentNodeConfig, NodeOptions
from agents.flows.definition.state import filled_text, user_query
from agents.flows.nodes.model_calls import ModelCalls, asked_again
from agents.flows.nodes.toolbox import Toolbox
from rag.core.ports import ChatRequest
from rag.core.types import Message


class AskingOptions(NodeOptions):
    """Options of a node that asks a model about a text; empty: what the person said."""

    text: str = ""
    instruction: str = Field(default="", max_length=4000)
    model: ModelConfig | None = None
    retries: int = Field(default=0, ge=0, le=5)
    fallback_models: list[ModelConfig] = Field(default=[], max_length=5)

    def texts(self) -> Mapping[str, Any]:
        """Return what is filled."""
        return {"text": self.text, "instruction": self.instruction}


async def ask_for_json(
    state: Mapping[str, Any],
    config: AskingOptions,
    run: NodeRun,
    schema: Mapping[str, Any],
    prompt: tuple[str, Mapping[str, Any]],
) -> tuple[ModelOutput, str]:
    """Return what a model says of the node's text, and what is wrong with it, empty for nothing.

    ``prompt`` is the name of a prompt file without its language, and values for it.
    """
    text = filled_text(config.text, state) if config.text else user_query(state)
    name, values = prompt
    told = {"instruction": filled_text(config.instruction, state), **values}
    language = language_of(f"{config.instruction}{text}")
    messages = [
        Message("system", fill_prompt(prompt_file(f"{name}_{language}"), told)),
        Message("user", text or "-"),
    ]
    asking = AgentNodeConfig(
        prompt=name,
        model=config.model,
        retries=config.retries,
        fallback_models=config.fallback_models,
        output_schema=dict(schema),
    )
    calls = ModelCalls(asking, run, Toolbox((), run, {}))
    request = ChatRequest(messages=messages, question=text)
    asked = await calls.ask(request, partial(SpokenText, "none"))
    output, fault = _read(asked.text, schema)
    if fault:
        asked = await calls.ask(asked_again(asked, fault), partial(SpokenText, "none"))
        output, fault = _read(asked.text, schema)
    return output, fault


def _read(text: str, schema: Mapping[str, Any]) -> tuple[ModelOutput, str]:
    output = parse_output(text)
    if not output.is_parsed:
        return output, "it holds no JSON object."
    known: Sequence[str] = list(schema.get("properties") or {})
    # A schema may ask for what an agent's answer has for its reader.
    said = {"response_content": output.response_content, "summary": output.reasoning_summary}
    variables = {**{name: one for name, one in said.items() if one}, **output.variables}
    kept = {name: one for name, one in variables.items() if name in known}
    return replace(output, variables=kept), schema_error(schema, kept)
