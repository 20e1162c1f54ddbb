"""Flow state: JSON only, no secrets, merged by a reducer per field, stored as JSON and read back.

Parallel branches never overwrite each other: dicts are merged, lists appended, single values taken
from whoever wrote last in file order.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict, get_type_hints

from rag.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Replace:
    """An update that takes the place of what was there, instead of being merged into it."""

    value: Any


def keep_last(old: Any, new: Any) -> Any:
    """Return the newer value."""
    return new.value if isinstance(new, Replace) else new


def append_lists(old: list[Any] | None, new: list[Any] | Replace | None) -> list[Any]:
    """Return both lists, one after the other."""
    if isinstance(new, Replace):
        return list(new.value or [])
    return [*(old or []), *(new or [])]


def merge_dicts(
    old: Mapping[str, Any] | None, new: Mapping[str, Any] | Replace | None
) -> dict[str, Any]:
    """Return both dicts in one; a key of both has the newer value."""
    if isinstance(new, Replace):
        return dict(new.value or {})
    return {**(old or {}), **(new or {})}


def merge_results(
    old: Mapping[str, Any] | None, new: Mapping[str, Any] | Replace | None
) -> dict[str, Any]:
    """Return the results of all sources; a source that was asked twice keeps both lists.

    A result that is no list takes the place of an earlier one.
    """
    if isinstance(new, Replace):
        return dict(new.value or {})
    found = dict(old or {})
    for name, results in (new or {}).items():
        earlier = found.get(name)
        both = isinstance(earlier, list) and isinstance(results, list)
        found[name] = [*earlier, *results] if both else results  # type: ignore[misc]
    return found


def merge_query_context(
    old: Mapping[str, Any] | None, new: Mapping[str, Any] | Replace | None
) -> dict[str, Any]:
    """Return the newest description of a query, with those of all nodes under ``nodes``."""
    if isinstance(new, Replace):
        return dict(new.value or {})
    found = merge_dicts(old, new)
    nodes = {**((old or {}).get("nodes") or {}), **((new or {}).get("nodes") or {})}
    return {**found, "nodes": nodes} if nodes else found


class Turn(TypedDict):
    """One message: ``role`` is system, user, assistant or tool."""

    role: str
    content: str


class FlowState(TypedDict, total=False):
    """The state of a flow's run. Messages are turns of role and content."""

    current_message: Annotated[Turn, keep_last]
    history_messages: Annotated[list[Turn], keep_last]
    flow_msgs: Annotated[list[Turn], append_lists]
    session_id: Annotated[str, keep_last]
    intent: Annotated[str | None, keep_last]
    confidence: Annotated[float | None, keep_last]
    need_clarification: Annotated[bool | None, keep_last]
    token_id: Annotated[str | None, keep_last]
    trace_id: Annotated[str | None, keep_last]
    prompt_vars: Annotated[dict[str, Any], merge_dicts]
    edges_var: Annotated[dict[str, Any], merge_dicts]
    rag_results: Annotated[dict[str, Any], merge_results]
    query_context: Annotated[dict[str, Any], merge_query_context]
    recalled_memories: Annotated[str | None, keep_last]


REDUCERS: Mapping[str, Any] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(FlowState, include_extras=True).items()
}
FIELDS = tuple(FlowState.__annotations__)
# Who acts and in which conversation: no answer of a model may replace these.
IDENTITY = ("session_id", "token_id", "trace_id")
EMPTY: FlowState = {
    "history_messages": [],
    "flow_msgs": [],
    "prompt_vars": {},
    "edges_var": {},
    "rag_results": {},
    "query_context": {},
}


_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def to_storable(update: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node's update as JSON values that Postgres keeps; ``Replace`` stays what it is.

    NUL and halves of characters become U+FFFD, NaN and infinity None. Raises ConfigurationError
    for what is no JSON.
    """
    return {
        key: Replace(_plain(value.value)) if isinstance(value, Replace) else _plain(value)
        for key, value in update.items()
    }


def pack_update(update: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return an update as JSON alone; ``unpack_update`` reads it."""
    return {
        "merge": {key: one for key, one in update.items() if not isinstance(one, Replace)},
        "replace": {key: one.value for key, one in update.items() if isinstance(one, Replace)},
    }


def unpack_update(record: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the update that ``pack_update`` was given."""
    return {**record["merge"], **{key: Replace(value) for key, value in record["replace"].items()}}


def _plain(value: Any) -> Any:
    try:
        text = _written(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            "A state of a flow can hold only JSON: {reason}.", reason=error
        ) from error
    if "\\u0000" in text or _UNSTORABLE.search(text):
        return _clean(json.loads(text))
    return json.loads(text)


def _written(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return value


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_clean(key): _clean(one) for key, one in value.items()}
    return [_clean(one) for one in value] if isinstance(value, list) else value
