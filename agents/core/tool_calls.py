"""Tool calls written as text: in our form and in the dialects of Hermes and Qwen, Llama, Mistral
and OpenAI, which servers without a reader of their own leave in the answer.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from agents.core.parse_output import find_json_objects
from rag.core.errors import ProviderError, RAGError
from rag.core.tools import ToolSpec
from rag.core.types import ToolUse

log = logging.getLogger(__name__)

MAX_CALLS = 16
# A tag is no part of any answer; JSON may be one.
_TAG = re.compile(
    r"<\|?tool_calls?(?:_begin|_start)?\|?>|<\|python_tag\|>|\[TOOL_CALLS\]|<function[=_]", re.I
)
_TAGS = ("<tool_call", "<|tool_call", "<|python_tag|>", "[tool_calls]", "<function=", "<function_")
_OPENINGS = (*_TAGS, "{", "```", "[{", "[\n", "[ {")
_LEFT_OVER = re.compile(
    r"</?\|?(?:tool_calls?|function|parameter)\w*\|?>?|<\|[\w-]{1,30}\|>|\[/?TOOL_CALLS\]|[\s\]}`,]+",
    re.I,
)
# `<function=search>{…}`, `[TOOL_CALLS]search[ARGS]{…}`, `<function=search><parameter=query>…`.
_NAMED = re.compile(
    r"(?:<function[=_]\"?|\[TOOL_CALLS\]\s*)(?P<name>[\w.-]{1,64})\"?\s*(?:>|\[ARGS\]|(?=\{))\s*",
    re.I,
)
_PARAMETER = re.compile(
    r"<parameter=\"?(?P<name>[\w.-]{1,64})\"?>\s*(?P<value>.*?)\s*(?:</parameter>|\Z)", re.S
)
_FENCE = re.compile(r"\A```[\w-]*[ \t]*\n(?P<inside>.*?)\n?[ \t]*```\Z", re.S)
_NAMES = ("tool", "name", "function", "tool_name", "function_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "kwargs")
_LISTS = ("calls", "tool_calls")


def example_call(spec: ToolSpec) -> str:
    """Return a call of a tool as JSON, for a prompt: its required arguments with a value each."""
    shapes, wanted = spec.parameters.get("properties") or {}, spec.parameters.get("required") or ()
    given = {name: _example(shapes.get(name) or {}) for name in wanted}
    return json.dumps({"tool": spec.name, "arguments": given}, ensure_ascii=False)


def _example(shape: Mapping[str, Any]) -> Any:
    if allowed := shape.get("enum"):
        return allowed[0]
    values = {"integer": 3, "number": 0.5, "boolean": True, "array": [], "object": {}}
    return values.get(str(shape.get("type")), "days of leave a year")


def begins_call(text: str) -> bool:
    """Return whether an answer that begins so may become a call, or is none of anything yet."""
    begun = text.lstrip()[:16].lower()
    return any(begun.startswith(sign) or sign.startswith(begun) for sign in _OPENINGS)


def tag_start(text: str) -> int:
    """Return where a tag of a call begins in a text, or may begin at its end; else its length."""
    if match := _TAG.search(text):
        return match.start()
    for at in range(max(0, len(text) - 16), len(text)):
        rest = text[at:].lower()
        if rest[0] in "<[" and any(tag.startswith(rest) for tag in _TAGS):
            return at
    return len(text)


def parse_tool_calls(
    text: str, names: Collection[str], *, is_lenient: bool
) -> tuple[ToolUse, ...] | None:
    """Return the calls of an answer that is nothing else; none of them: the answer may follow.

    None means that it is no call. A call in a tag may stand behind other words; one that cannot be
    read has a ``fault``, and an unknown name is a call all the same: the model is told which ones
    there are. ``is_lenient`` takes JSON that stands at the end of other text, for models that were
    asked to write calls; for others that would be a document quoted.
    """
    bare = text.strip()
    tag = _TAG.search(bare)
    if tag and (tagged := _tagged(bare[tag.start() :], names, is_first=tag.start() == 0)):
        return tagged
    fenced = _FENCE.match(bare)
    inside = fenced["inside"] if fenced else bare
    whole = _json(inside)
    if whole is None and inside.startswith("{"):
        # One on each line.
        lines = [_json(line) for line in inside.splitlines()]
        whole = None if None in lines else lines
    if (calls := _calls(whole, names)) is not None:
        return calls
    if not begins_call(bare) and not (is_lenient and bare.endswith(("}", "`"))):
        return None
    for found in find_json_objects(bare):
        # Amid other words only what is plainly meant for us.
        is_ours = found.keys() == {"calls"} or _field(found, _NAMES) in names
        if is_ours and (calls := _calls(found, names)) is not None:
            return calls
    return None


def _tagged(text: str, names: Collection[str], *, is_first: bool) -> tuple[ToolUse, ...] | None:
    found: list[Any] = []
    rest = text
    for match in _NAMED.finditer(text):
        after = text[match.end() :]
        end = after.lower().find("</function")
        inside = after[:end] if end >= 0 else after
        arguments = next(_values(inside), None) if inside.lstrip().startswith("{") else None
        if arguments is None:
            arguments = {one["name"]: one["value"] for one in _PARAMETER.finditer(inside)}
        found.append({"name": match["name"], "arguments": arguments})
        rest = after[end:] if end >= 0 else ""
    if not found:
        found, rest = list(_values(text)), text[_last_value_end(text) :]
    if not is_first and _LEFT_OVER.sub("", rest):
        # Words follow: a document that tells of calls.
        return None
    calls = [call for value in found for call in _calls(value, names) or ()]
    if calls:
        return _numbered(calls)
    told = ", ".join(sorted(names))
    return (ToolUse("call_1", "", fault=f"It is no JSON with name and arguments. Tools: {told}."),)


def _values(text: str) -> Iterator[Any]:
    """Yield the JSON objects and lists of a text, one after another."""
    at, decoder = 0, json.JSONDecoder()
    for _ in range(4 * MAX_CALLS):
        starts = [place for sign in "{[" if (place := text.find(sign, at)) >= 0]
        if not starts:
            return
        try:
            value, at = decoder.raw_decode(text, min(starts))
        except (ValueError, RecursionError):
            at = min(starts) + 1
            continue
        yield value


def _last_value_end(text: str) -> int:
    return max(text.rfind(sign) for sign in "}]>") + 1


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _calls(value: Any, names: Collection[str]) -> tuple[ToolUse, ...] | None:
    """Return the calls that a JSON value is, None where it is something else."""
    if isinstance(value, Mapping):
        listed = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)
        if listed is None:
            call = _call(value, names)
            return None if call is None else (call,)
        is_other = not listed and value.keys() - set(_LISTS)
        value = None if is_other else listed
        if value == []:
            return ()
    if not isinstance(value, list) or not value:
        return None
    calls = [_call(one, names) for one in value]
    return None if None in calls else _numbered([call for call in calls if call])


def _numbered(calls: list[ToolUse]) -> tuple[ToolUse, ...]:
    return tuple(
        ToolUse(f"call_{number}", call.name, call.arguments, fault=call.fault)
        for number, call in enumerate(calls[:MAX_CALLS], start=1)
    )


def _call(found: Any, names: Collection[str]) -> ToolUse | None:
    if not isinstance(found, Mapping):
        return None
    inner = found.get("function") or found.get("function_call")
    if isinstance(inner, Mapping):
        return _call(inner, names)
    name = _field(found, _NAMES)
    key = next((key for key in _ARGUMENTS if key in found), "")
    is_named = isinstance(name, str) and bool(name)
    # Without arguments it is one in our own words, or where nothing else is said.
    is_bare = name in names and ("tool" in found or found.keys() <= {"name", "id", "type"})
    if not is_named or not (key or is_bare or found.keys() == {"tool"}):
        return None
    arguments = found.get(key, {})
    if isinstance(arguments, str):
        arguments = _json(arguments) if arguments.strip() else {}
    if arguments is None and key:
        arguments = found[key] or {}
    if not isinstance(arguments, dict):
        fault = "The arguments are no JSON object."
        return ToolUse("call_1", _known(name, names), fault=fault)
    return ToolUse("call_1", _known(name, names), arguments)


def _field(found: Mapping[str, Any], keys: Collection[str]) -> Any:
    return next((found[key] for key in keys if isinstance(found.get(key), str)), None)


def _known(name: str, names: Collection[str]) -> str:
    """Return the tool's own name for one that differs in case, dashes or a prefix alone."""
    folded = {_plain(known): known for known in names}
    return folded.get(_plain(name.rpartition(".")[2]), name)


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold()


def tool_error(name: str, fault: BaseException) -> RAGError:
    """Return how a tool's fault is told: a RAGError as it is, any other by its kind alone."""
    if isinstance(fault, RAGError):
        return fault
    log.error("the tool %s has a fault", name, exc_info=fault)
    return ProviderError(
        "The tool {name} has a fault ({kind}).",
        hint="The server's log says where.",
        name=name,
        kind=type(fault).__name__,
    )
