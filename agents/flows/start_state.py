"""The state that a run begins with. In: a flow, a message, what is given. Out: a whole state."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from agents.core.json_state import storable
from agents.core.state import EMPTY, FIELDS, IDENTITY
from agents.flows.definition import FlowDefinition
from rag.core.errors import InvalidInputError, UnknownNameError

MAX_MESSAGE = 100_000
_ROLES = ("system", "user", "assistant", "tool")


def start_state(
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
            "The message has {n} characters.", hint="At most {limit}.", n=len(message),
            limit=MAX_MESSAGE,
        )  # fmt: skip
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
    # An input that nobody gave is None, and empty in a prompt.
    state["prompt_vars"] = {**dict.fromkeys(flow.inputs), **state["prompt_vars"], **inputs}
    state["current_message"] = {"role": "user", "content": message}
    return storable(state)


def _checked(name: str, value: Any) -> Any:
    empty = EMPTY.get(name)
    if isinstance(empty, dict) and not isinstance(value, dict):
        raise InvalidInputError("“{name}” is no object.", name=name)
    if isinstance(empty, list) and not (isinstance(value, list) and all(map(_is_turn, value))):
        raise InvalidInputError(
            "“{name}” is no list of messages.", hint="Each has a role ({roles}) and a content.",
            name=name, roles=", ".join(_ROLES),
        )  # fmt: skip
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
