"""Flow folders and zip archives: flow.yaml with its prompt files, read and written."""

from __future__ import annotations

import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath

from rag.core.errors import InvalidInputError, NotFoundError
from rag.stages.detect.entry_names import entry_names

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


def read_flow_folder(path: Path) -> FlowFiles:
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
        is_inside = one.resolve().is_relative_to(folder)
        is_document = one.relative_to(folder).parts[0] == DOCUMENTS
        if one.suffix in TEXTS and one.is_file() and is_inside and not is_document:
            _check_count(folder, len(prompts) + 1)
            prompts[one.relative_to(folder).as_posix()] = read_flow_text_file(one)
    return FlowFiles(read_flow_text_file(file), prompts)


def write_flow_folder(path: Path, files: FlowFiles) -> list[Path]:
    """Write a flow into a folder, made when it is not there; return the files written."""
    check_prompt_paths(files.prompts)
    written = []
    for name, text in files_to_texts(files).items():
        file = path / PurePosixPath(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="")
        written.append(file)
    return written


def check_prompt_paths(prompts: Mapping[str, str]) -> None:
    """Raise InvalidInputError for a prompt whose path leads out, or that no database keeps."""
    for name, text in prompts.items():
        parts = PurePosixPath(name).parts
        is_plain = (
            parts and "\\" not in name and not any(part in ("..", "/", ".") for part in parts)
        )
        if not is_plain or PurePosixPath(name).suffix not in TEXTS or "\0" in name:
            raise InvalidInputError(
                "“{path}” cannot be the path of a prompt.",
                hint="Write it like {example}.",
                path=name,
                example="prompts/10-answer.md",
            )
        if _UNSTORABLE.search(text):
            raise InvalidInputError(
                "“{path}” is no text: it holds a NUL or half a character.",
                hint="Save it as UTF-8.",
                path=name,
            )


def read_flow_text_file(file: Path) -> str:
    """Return a file's text; raise InvalidInputError for one too large, or no UTF-8."""
    _check_size(file, file.stat().st_size)
    return _plain(_decoded(file, file.read_bytes()))


MAX_ARCHIVE = 20_000_000
_UNREADABLE = (lzma.LZMAError, NotImplementedError, RuntimeError, EOFError, OSError, ValueError)
_DATE = (1980, 1, 1, 0, 0, 0)


def read_flow_zip(data: bytes) -> FlowFiles:
    """Return the flow of a zip whose flow.yaml lies at its top or in its one folder.

    Other files than .md and .txt beside it are left alone. Raises InvalidInputError for what is no
    zip or too large, NotFoundError where there is no flow.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return files_from_texts(_texts(archive))
    except (zipfile.BadZipFile, zlib.error, *_UNREADABLE) as error:
        raise InvalidInputError(
            "The archive cannot be read: {reason}.",
            hint="Send a plain zip.",
            reason=str(error).rstrip("."),
        ) from error


def write_flow_zip(files: FlowFiles) -> bytes:
    """Return the files as a zip; the same files are the same bytes."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files_to_texts(files).items():
            archive.writestr(
                zipfile.ZipInfo(name, _DATE), text.encode("utf-8"), zipfile.ZIP_DEFLATED
            )
    return written.getvalue()


def files_from_texts(texts: Mapping[str, str]) -> FlowFiles:
    """Return the flow of texts by path; raise NotFoundError without a flow.yaml.

    Raises InvalidInputError for a path that leads out, too many and too long texts.
    """
    if FLOW_FILE not in texts:
        raise NotFoundError("There is no flow at “{path}”.", path=FLOW_FILE)
    _check_count(FLOW_FILE, len(texts) - 1)
    for name, text in texts.items():
        _check_size(name, len(text.encode("utf-8", "surrogatepass")))
    plain = {name: _plain(text) for name, text in texts.items()}
    prompts = {name: text for name, text in plain.items() if name != FLOW_FILE}
    check_prompt_paths(prompts)
    return FlowFiles(plain[FLOW_FILE], prompts)


def files_to_texts(files: FlowFiles) -> dict[str, str]:
    """Return the files' texts by path."""
    return {FLOW_FILE: files.yaml, **files.prompts}


def _texts(archive: zipfile.ZipFile) -> dict[str, str]:
    entries = archive.infolist()
    names = [PurePosixPath(name) for name in entry_names(entries)]
    roots = [name.parent for name in names if name.name == FLOW_FILE]
    root = min(roots, key=lambda one: len(one.parts), default=PurePosixPath())
    found: dict[str, str] = {}
    for one, name in zip(entries, names, strict=True):
        is_text = name == root / FLOW_FILE or name.suffix in TEXTS
        if one.is_dir() or not is_text or not name.is_relative_to(root):
            continue
        if name.relative_to(root).parts[0] == DOCUMENTS:
            continue
        _check_size(name, one.file_size)
        _check_count(FLOW_FILE, len(found))
        with archive.open(one) as stream:
            # What a zip says of its sizes need not be true.
            raw = stream.read(MAX_BYTES + 1)
        _check_size(name, len(raw))
        found[name.relative_to(root).as_posix()] = _decoded(name, raw)
    return found


def _plain(text: str) -> str:
    # As a folder's files are read: the same flow is the same version, whichever way it came.
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _decoded(name: PurePath, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError("“{path}” is not UTF-8.", path=name) from error


def _check_count(path: PurePath | str, n_texts: int) -> None:
    if n_texts > MAX_FILES:
        raise InvalidInputError(
            "“{path}” holds more than {limit} texts.", path=path, limit=MAX_FILES
        )


def _check_size(name: PurePath | str, n_bytes: int) -> None:
    if n_bytes > MAX_BYTES:
        raise InvalidInputError(
            "“{path}” has {n} bytes.",
            hint="At most {limit}.",
            path=name,
            n=n_bytes,
            limit=MAX_BYTES,
        )
