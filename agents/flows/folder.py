"""A flow as a folder. In: flow.yaml with texts beside it. Out: both as texts, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rag.core.errors import InvalidInputError, NotFoundError

FLOW_FILE = "flow.yaml"
# What lies here fills the flow's stores and is no prompt.
DOCUMENTS = "documents"
MAX_FILES = 200
MAX_BYTES = 500_000
TEXTS = (".md", ".txt")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class FlowFiles:
    """The YAML of a flow, and its prompts by their path within the folder."""

    yaml: str
    prompts: Mapping[str, str] = field(default_factory=dict)


def read_folder(path: Path) -> FlowFiles:
    """Return what lies in a folder, or around a YAML file: it and all .md and .txt files.

    What lies below ``documents/`` is for the flow's stores and left alone.
    Raises NotFoundError where there is no flow, InvalidInputError for too many or too large files
    and for what is no UTF-8.
    """
    file = path / FLOW_FILE if path.is_dir() else path
    if not file.is_file():
        raise NotFoundError("There is no flow at “{path}”.", path=path)
    folder = file.parent.resolve()
    prompts: dict[str, str] = {}
    for one in sorted(folder.rglob("*")):
        is_inside = one.resolve().is_relative_to(folder) and not _is_document(one, folder)
        if one.suffix in TEXTS and one.is_file() and is_inside:
            if len(prompts) == MAX_FILES:
                raise InvalidInputError(
                    "“{path}” holds more than {limit} texts.", path=folder, limit=MAX_FILES
                )
            prompts[one.relative_to(folder).as_posix()] = read_text(one)
    return FlowFiles(read_text(file), prompts)


def write_folder(path: Path, files: FlowFiles) -> list[Path]:
    """Write a flow into a folder, made when it is not there; return the files written."""
    check_prompts(files.prompts)
    written = []
    for name, text in {FLOW_FILE: files.yaml, **files.prompts}.items():
        file = path / PurePosixPath(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="")
        written.append(file)
    return written


def check_prompts(prompts: Mapping[str, str]) -> None:
    """Raise InvalidInputError for a prompt whose path leads out, or that no database keeps."""
    for name, text in prompts.items():
        parts = PurePosixPath(name).parts
        is_plain = (
            parts and "\\" not in name and not any(part in ("..", "/", ".") for part in parts)
        )
        if not is_plain or PurePosixPath(name).suffix not in TEXTS or "\0" in name:
            raise InvalidInputError(
                "“{path}” cannot be the path of a prompt.",
                hint="Write it like {example}.", path=name, example="prompts/10-answer.md",
            )  # fmt: skip
        if _UNSTORABLE.search(text):
            raise InvalidInputError(
                "“{path}” is no text: it holds a NUL or half a character.",
                hint="Save it as UTF-8.", path=name,
            )  # fmt: skip


def _is_document(file: Path, folder: Path) -> bool:
    return file.relative_to(folder).parts[0] == DOCUMENTS


def read_text(file: Path) -> str:
    """Return a file's text; raise InvalidInputError for one too large, or no UTF-8."""
    if file.stat().st_size > MAX_BYTES:
        raise InvalidInputError(
            "“{path}” has {n} bytes.", hint="At most {limit}.", path=file,
            n=file.stat().st_size, limit=MAX_BYTES,
        )  # fmt: skip
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError("“{path}” is not UTF-8.", path=file) from error
