"""What names stand for in a flow. In: a state. Out: values for conditions, prompts and sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.core.state import FIELDS, IDENTITY


def user_query(state: Mapping[str, Any]) -> str:
    """Return what the person said."""
    return str((state.get("current_message") or {}).get("content") or "")


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
        **(state.get("edges_var") or {}), **(state.get("prompt_vars") or {}), **given,
        "user_query": user_query(state),
    }  # fmt: skip


def prompt_values(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``{name}`` in prompts stands for, besides what a node itself adds.

    Every field of the state is there, None where it is not set.
    """
    return {
        **dict.fromkeys(FIELDS), **_joined(state, "edges_var", "prompt_vars"),
        "user_query": user_query(state),
    }  # fmt: skip


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
