"""Flow test cases: cases.yaml beside a flow, read as typed cases.

``cases.yaml`` holds ``cases`` and perhaps ``answers``, ``script`` (a file with answers) and
``default``, as scripted models take them. A case has a message and may have state, sources (their
results by name, or ``error``; those of tools and ``rag_files`` nodes too), decisions (by node),
answers of its own, and what it expects: route, status, variables, answer (a part of it), error (a
part of it).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.flows.definition.archive import read_flow_text_file
from agents.flows.definition.yaml_positions import parse_yaml
from rag.core.errors import InvalidInputError, NotFoundError

CASES_FILE = "cases.yaml"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ExpectedOutcome(_Strict):
    """What a case must come to; only what is given is compared."""

    route: list[str] | None = None
    status: Literal["done", "paused", "error"] = "done"
    variables: dict[str, Any] = {}
    answer: str = ""
    error: str = ""


class FlowCase(_Strict):
    """One message with all that the flow would be told from outside."""

    name: str
    message: str
    state: dict[str, Any] = {}
    sources: dict[str, Any] = {}
    decisions: dict[str, str] = {}
    answers: list[dict[str, Any]] = []
    expect: ExpectedOutcome = ExpectedOutcome()


class FlowCaseFile(_Strict):
    """All cases; ``answers`` are those of every case, after its own."""

    cases: list[FlowCase] = Field(min_length=1, max_length=1000)
    answers: list[dict[str, Any]] = []
    script: str = ""
    default: Any = None


def read_cases(path: Path) -> FlowCaseFile:
    """Return the cases of a flow's folder, or of the folder around its YAML, script included.

    Raises NotFoundError without cases, InvalidInputError for wrong ones, with their place.
    """
    folder = path if path.is_dir() else path.parent
    file = folder / CASES_FILE
    if not file.is_file():
        raise NotFoundError("There are no cases at “{path}”.", path=file)
    located = parse_yaml(read_flow_text_file(file), name=CASES_FILE)
    try:
        found = FlowCaseFile.model_validate(located.data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = located.place(first["loc"])
        raise InvalidInputError(
            "“{name}”, line {line}, column {column}: {reason}.",
            name=CASES_FILE,
            line=place.line,
            column=place.column,
            reason=f"{'.'.join(map(str, first['loc']))}: {first['msg']}".rstrip("."),
        ) from None
    return _with_script(found, folder) if found.script else found


def _with_script(found: FlowCaseFile, folder: Path) -> FlowCaseFile:
    file = folder / found.script
    if not file.is_file():
        raise NotFoundError("There is no script at “{path}”.", path=file)
    data = parse_yaml(read_flow_text_file(file), name=found.script).data
    if not isinstance(data, dict) or not isinstance(data.get("answers", []), list):
        raise InvalidInputError(
            "The script “{name}” is wrong: {reason}.",
            name=found.script,
            reason="it must hold answers and perhaps default",
        )
    default = found.default if found.default is not None else data.get("default")
    answers = [*found.answers, *data.get("answers", [])]
    return found.model_copy(update={"answers": answers, "default": default})
