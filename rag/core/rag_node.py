"""RAG node of a workflow builder: its data as camelCase JSON on the wire, typed here.

The builder is a program outside: people draw a graph there, and its RAG nodes are saved and run
here over the file search routes. Our own graphs are flows, whose node ``rag_files`` has its fields.
Unknown keys belong to the builder and are kept as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from rag.core.documents import ChunkRule
from rag.core.errors import InvalidInputError, UnknownNameError

FILE_MODES = ("static", "variable")
UPLOAD_STATUSES = ("idle", "uploading", "processing", "completed", "error")
SLOTS = ("files", "files2", "files3")
FILE_SEARCH, MULTIMODAL = "fileSearch", "multimodal"


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file by its address, as an earlier node gave it; ``type`` is what it claims to be."""

    name: str
    url: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class InputMappings:
    """Templates of what comes from other nodes; empty ones are not set."""

    query: str = ""
    files: str = ""
    files2: str = ""
    files3: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_wire(cls, values: Any) -> Self:
        """Return the mappings of a JSON object; raise InvalidInputError for what is no text."""
        return cls(**_read(cls, values, "inputMappings"))

    def as_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        return _write(self)


@dataclass(frozen=True, slots=True)
class RAGNodeData:
    """What a node is set to and what last came of it; ``file_mode`` empty: by what there is."""

    label: str = "RAG"
    file_mode: str = ""
    files: Sequence[Any] = ()
    files2: Sequence[Any] = ()
    files3: Sequence[Any] = ()
    file_search_store_name: str = ""
    file_search_store_id: str = ""
    max_tokens_per_chunk: int = 200
    max_overlap_tokens: int = 20
    upload_status: str = "idle"
    upload_error: str = ""
    search_query: str = ""
    found_documents: Sequence[str] | None = None
    input_mappings: InputMappings = InputMappings()
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.file_mode and self.file_mode not in FILE_MODES:
            raise UnknownNameError("file mode", self.file_mode, FILE_MODES)
        if self.upload_status not in UPLOAD_STATUSES:
            raise UnknownNameError("upload status", self.upload_status, UPLOAD_STATUSES)
        # It refuses what is out of range.
        ChunkRule(self.max_tokens_per_chunk, self.max_overlap_tokens)

    @property
    def chunk_rule(self) -> ChunkRule:
        """Return how the node's files are cut; raise InvalidInputError out of range."""
        return ChunkRule(self.max_tokens_per_chunk, self.max_overlap_tokens)

    @classmethod
    def from_wire(cls, values: Any) -> Self:
        """Return the data of a JSON object; null and what is left out take the default.

        Raises InvalidInputError for a value of another type or out of range.
        """
        read = _read(cls, values, "node data")
        if "input_mappings" in read:
            read["input_mappings"] = InputMappings.from_wire(read["input_mappings"])
        return cls(**read)

    def as_wire(self) -> dict[str, Any]:
        """Return the JSON object; ``from_wire`` reads the same data from it."""
        written = _write(self)
        written["inputMappings"] = self.input_mappings.as_wire()
        return written if written["inputMappings"] else _without(written, "inputMappings")


def valid_files(value: Any) -> tuple[FileRef, ...]:
    """Return the files among what a template gave: objects with an url, or one such object."""
    found = [value] if isinstance(value, Mapping) else value
    if isinstance(found, (str, bytes)) or not isinstance(found, Sequence):
        return ()
    return tuple(
        FileRef(str(one.get("name") or "unknown"), one["url"].strip(), str(one.get("type") or ""))
        for one in found
        if isinstance(one, Mapping) and isinstance(one.get("url"), str) and one["url"].strip()
    )


def pick_mode(file_mode: str, n_files: int) -> str:
    """Return ``multimodal`` or ``fileSearch``: as was chosen, else by whether there are files.

    Raises InvalidInputError when files were chosen and there are none.
    """
    if file_mode == "variable" and not n_files:
        raise InvalidInputError(
            "The node is set to files of earlier nodes, and there is none with an url.",
            hint="Check the references to files, or choose static files.",
        )
    if file_mode == "static":
        return FILE_SEARCH
    return MULTIMODAL if n_files else FILE_SEARCH


def _read(cls: Any, values: Any, of: str) -> dict[str, Any]:
    if values is None:
        values = {}
    if not isinstance(values, Mapping):
        raise InvalidInputError("{of} is no object.", hint="Send a JSON object.", of=of)
    known = {_camel(one.name): one for one in fields(cls) if one.name != "extra"}
    read: dict[str, Any] = {"extra": {str(k): v for k, v in values.items() if k not in known}}
    for name, one in known.items():
        if values.get(name) is not None:
            read[one.name] = _checked(name, values[name], str(one.type))
    return read


def _checked(name: str, value: Any, kind: str) -> Any:
    if kind == "str" and isinstance(value, str):
        return value
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if kind == "int" and is_whole and not isinstance(value, bool):
        return int(value)
    if kind.startswith("Sequence") and isinstance(value, (list, tuple)):
        if "str" not in kind or all(isinstance(part, str) for part in value):
            return tuple(value)
    elif kind == "InputMappings":
        return value
    if kind == "str":
        raise InvalidInputError("{name} must be a text.", name=name)
    if kind == "int":
        raise InvalidInputError("{name} must be a whole number.", name=name)
    raise InvalidInputError("{name} must be a list.", name=name)


def _write(data: Any) -> dict[str, Any]:
    written: dict[str, Any] = dict(data.extra)
    for one in fields(data):
        value = getattr(data, one.name)
        # An emptied text whose default is not empty must be told, or the default comes back.
        if one.name == "extra" or value is None or value == one.default == "":
            continue
        written[_camel(one.name)] = list(value) if isinstance(value, tuple) else value
    return written


def _without(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
