"""Flow state: its initial value, and the variables that conditions and prompts read from it."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from typing import Any

from agents.core.prompts import fill_prompt
from agents.core.state import EMPTY, FIELDS, IDENTITY, Replace, to_storable
from agents.flows.definition.definition import FlowDefinition
from agents.flows.definition.inputs import given_inputs
from rag.core.errors import InvalidInputError, UnknownNameError

_ALONE = re.compile(r"\{([^\W\d]\w*)\}")


def user_query(state: Mapping[str, Any]) -> str:
    """Return what the person said."""
    return str((state.get("current_message") or {}).get("content") or "")


def last_turn(state: Mapping[str, Any]) -> str:
    """Return what was said last, by a node or in an update of one; empty for nothing."""
    turns = state.get("flow_msgs") or [{}]
    return str(turns[-1].get("content") or "")


def condition_values(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what conditions ask for: fields, then prompt variables, then ``edges_var``.

    The later one counts, but nothing replaces who acts. What is None is missing.
    """
    given = {name: one for name, one in (state.get("prompt_vars") or {}).items() if one is not None}
    return _joined({**state, "prompt_vars": given}, "prompt_vars", "edges_var")


def source_values(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``{name}`` in queries of sources stands for; ``user_query`` is there.

    Answers of models count least: they must not choose whose records are read.
    """
    given = {name: value for name, value in state.items() if value is not None}
    return {
        **(state.get("edges_var") or {}),
        **(state.get("prompt_vars") or {}),
        **given,
        "user_query": user_query(state),
    }


def prompt_values(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``{name}`` in prompts stands for, besides what a node itself adds.

    Every field of the state is there, None where it is not set. What nodes set counts before
    what was given under the same name.
    """
    return {
        **dict.fromkeys(FIELDS),
        **_joined(state, "prompt_vars", "edges_var"),
        "user_query": user_query(state),
    }


def filled_text(template: str, state: Mapping[str, Any]) -> str:
    """Return a text with each ``{name}`` filled; what is not set is empty."""
    return fill_prompt(template, prompt_values(state), missing="")


def filled_value(value: Any, state: Mapping[str, Any]) -> Any:
    """Return JSON with its texts filled; one that is ``{name}`` alone is the variable itself."""
    if isinstance(value, str):
        alone = _ALONE.fullmatch(value)
        return prompt_values(state).get(alone[1]) if alone else filled_text(value, state)
    if isinstance(value, Mapping):
        return {key: filled_value(one, state) for key, one in value.items()}
    return [filled_value(one, state) for one in value] if isinstance(value, list) else value


def state_fields(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the state that a model's variables set too, where their type fits."""
    kinds: dict[str, Any] = {"intent": str, "confidence": (int, float), "need_clarification": bool}
    return {
        name: variables[name]
        for name, kind in kinds.items()
        if isinstance(variables.get(name), kind)
        and (name == "need_clarification" or not isinstance(variables[name], bool))
    }


def _joined(state: Mapping[str, Any], *groups: str) -> dict[str, Any]:
    fields = {name: value for name, value in state.items() if value is not None}
    identity = {name: fields[name] for name in IDENTITY if name in fields}
    first, second = (state.get(group) or {} for group in groups)
    return {**fields, **first, **second, **identity}


START = "start"
# What a builder calls the node where a person says something.
START_LABEL = "用户输入"
META = "_meta"


def node_outputs(
    updates: Iterable[tuple[str, Mapping[str, Any]]],
) -> dict[str, Mapping[str, Any]]:
    """Return the last output of each node, in the order in which they ran."""
    found: dict[str, Mapping[str, Any]] = {}
    for node, update in updates:
        # A node that ran again is the latest one.
        found.pop(node, None)
        found[node] = _output(node, update)
    return found


def template_context(
    state: Mapping[str, Any], outputs: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what ``{{node.field}}`` is looked up in.

    First comes ``start`` (also called 用户输入) with ``user_input``, ``user_query`` and the flow's
    inputs, then each node by its name; labels of nodes count too.
    """
    said = {"user_input": user_query(state), "user_query": user_query(state)}
    given = {
        name: one for name, one in (state.get("prompt_vars") or {}).items() if name not in outputs
    }
    labels = {node: one["label"] for node, one in outputs.items() if one.get("label")}
    return {
        START: {**given, **said},
        **outputs,
        META: {"nodeLabels": {START: START_LABEL, **labels}},
    }


def _output(node: str, update: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: one.value if isinstance(one, Replace) else one for key, one in update.items()}
    turns = plain.get("flow_msgs") or []
    text = turns[-1]["content"] if turns else ""
    own = {key: one for key, one in plain.items() if key not in FIELDS or key == "rag_results"}
    own |= plain.get("edges_var") or {}
    if text:
        own |= {"output": text, "response_content": text}
    return {**own, **((plain.get("prompt_vars") or {}).get(node) or {})}


MAX_MESSAGE = 100_000
MAX_TURNS, MAX_HISTORY = 200, 200_000
_ROLES = ("system", "user", "assistant", "tool")


# What a runner may give besides the flow's inputs; everything else of a state is set by nodes.
_FROM_OUTSIDE = ("history_messages", *IDENTITY)


def check_given(flow: FlowDefinition, given: Mapping[str, Any]) -> None:
    """Raise UnknownNameError for what is no input of the flow: it could pass for a node's.

    Raises InvalidInputError for turns of a history that give a model its orders.
    """
    known = {*flow.inputs, *_FROM_OUTSIDE}
    for name in given:
        if name not in known:
            raise UnknownNameError("input of the flow", str(name), known)
    turns = given.get("history_messages")
    if isinstance(turns, list) and any(
        isinstance(one, dict) and one.get("role") == "system" for one in turns
    ):
        raise InvalidInputError(
            "“{name}” has a turn of the system.",
            hint="A conversation has turns of user and assistant.",
            name="history_messages",
        )


def initial_state(
    flow: FlowDefinition, message: str, given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the state of a run that was told ``message``.

    ``given`` holds fields of the state and the flow's own ``inputs``, which become prompt
    variables. Raises UnknownNameError for any other name, InvalidInputError for a wrong shape.
    """
    if not message.strip():
        raise InvalidInputError("The message is empty.")
    if len(message) > MAX_MESSAGE:
        raise InvalidInputError(
            "The message has {n} characters.",
            hint="At most {limit}.",
            n=len(message),
            limit=MAX_MESSAGE,
        )
    state: dict[str, Any] = copy.deepcopy(dict(EMPTY))
    inputs: dict[str, Any] = {}
    for name, value in (given or {}).items():
        if name in flow.inputs:
            inputs[name] = value
        elif name in FIELDS and name != "current_message":
            state[name] = _checked(name, value)
        else:
            known = {*FIELDS, *flow.inputs} - {"current_message"}
            raise UnknownNameError("field of a flow's state", str(name), known)
    # An input that nobody gave is its default or None, and then empty in a prompt.
    known_before = state["prompt_vars"]
    values = given_inputs(flow.inputs, {**known_before, **inputs})
    state["prompt_vars"] = {**known_before, **values}
    state["current_message"] = {"role": "user", "content": message}
    return to_storable(state)


def _checked(name: str, value: Any) -> Any:
    empty = EMPTY.get(name)
    if isinstance(empty, dict) and not isinstance(value, dict):
        raise InvalidInputError("“{name}” is no object.", name=name)
    if isinstance(empty, list) and not (isinstance(value, list) and all(map(_is_turn, value))):
        raise InvalidInputError(
            "“{name}” is no list of messages.",
            hint="Each has a role ({roles}) and a content.",
            name=name,
            roles=", ".join(_ROLES),
        )
    if name == "history_messages":
        n_characters = sum(len(one["content"]) for one in value)
        if len(value) > MAX_TURNS or n_characters > MAX_HISTORY:
            raise InvalidInputError(
                "“{name}” has {n} turns with {characters} characters.",
                hint="At most {limit} turns with {most} characters: leave out the oldest.",
                name=name,
                n=len(value),
                characters=n_characters,
                limit=MAX_TURNS,
                most=MAX_HISTORY,
            )
    if name in IDENTITY and not isinstance(value, str | None):
        raise InvalidInputError("“{name}” is no text.", name=name)
    return value


def _is_turn(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"role", "content"}
        and value["role"] in _ROLES
        and isinstance(value["content"], str)
    )
