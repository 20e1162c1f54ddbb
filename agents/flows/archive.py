"""A flow's folder as one thing. In: a zip, or texts by path. Out: its files, and back."""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import PurePosixPath

from agents.flows.folder import (
    DOCUMENTS,
    FLOW_FILE,
    MAX_BYTES,
    MAX_FILES,
    TEXTS,
    FlowFiles,
    check_prompts,
)
from rag.core.errors import InvalidInputError, NotFoundError
from rag.core.zip_name import zip_name

MAX_ARCHIVE = 20_000_000
_UNREADABLE = (lzma.LZMAError, NotImplementedError, RuntimeError, EOFError, OSError, ValueError)
_DATE = (1980, 1, 1, 0, 0, 0)


def read_archive(data: bytes) -> FlowFiles:
    """Return the flow of a zip whose flow.yaml lies at its top or in its one folder.

    Other files than .md and .txt beside it are left alone. Raises InvalidInputError for what is no
    zip or too large, NotFoundError where there is no flow.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return from_texts(_texts(archive))
    except (zipfile.BadZipFile, zlib.error, *_UNREADABLE) as error:
        raise InvalidInputError("The archive cannot be read: {reason}.", hint="Send a plain zip.",
                                reason=str(error).rstrip(".")) from error  # fmt: skip


def write_archive(files: FlowFiles) -> bytes:
    """Return the files as a zip; the same files are the same bytes."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in to_texts(files).items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), text.encode("utf-8"),
                             zipfile.ZIP_DEFLATED)  # fmt: skip
    return written.getvalue()


def from_texts(texts: Mapping[str, str]) -> FlowFiles:
    """Return the flow of texts by path; raise NotFoundError without a flow.yaml.

    Raises InvalidInputError for a path that leads out, too many and too long texts.
    """
    if FLOW_FILE not in texts:
        raise NotFoundError("There is no flow at “{path}”.", path=FLOW_FILE)
    if len(texts) > MAX_FILES + 1:
        raise InvalidInputError(
            "“{path}” holds more than {limit} texts.", path=FLOW_FILE, limit=MAX_FILES
        )
    for name, text in texts.items():
        _check_size(name, len(text.encode("utf-8", "surrogatepass")))
    plain = {name: _plain(text) for name, text in texts.items()}
    prompts = {name: text for name, text in plain.items() if name != FLOW_FILE}
    check_prompts(prompts)
    return FlowFiles(plain[FLOW_FILE], prompts)


def to_texts(files: FlowFiles) -> dict[str, str]:
    """Return the files' texts by path."""
    return {FLOW_FILE: files.yaml, **files.prompts}


def _texts(archive: zipfile.ZipFile) -> dict[str, str]:
    names = [PurePosixPath(zip_name(one)) for one in archive.infolist() if not one.is_dir()]
    roots = [name.parent for name in names if name.name == FLOW_FILE]
    root = min(roots, key=lambda one: len(one.parts), default=PurePosixPath())
    found: dict[str, str] = {}
    for one in archive.infolist():
        name = PurePosixPath(zip_name(one))
        is_text = name == root / FLOW_FILE or name.suffix in TEXTS
        if one.is_dir() or not is_text or not name.is_relative_to(root):
            continue
        if name.relative_to(root).parts[0] == DOCUMENTS:
            continue
        _check_size(str(name), one.file_size)
        if len(found) > MAX_FILES:
            raise InvalidInputError(
                "“{path}” holds more than {limit} texts.", path=FLOW_FILE, limit=MAX_FILES
            )
        with archive.open(one) as stream:
            # What a zip says of its sizes need not be true.
            raw = stream.read(MAX_BYTES + 1)
        _check_size(str(name), len(raw))
        found[name.relative_to(root).as_posix()] = _decoded(str(name), raw)
    return found


def _plain(text: str) -> str:
    # As a folder's files are read: the same flow is the same version, whichever way it came.
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _decoded(name: str, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError("“{path}” is not UTF-8.", path=name) from error


def _check_size(name: str, n_bytes: int) -> None:
    if n_bytes > MAX_BYTES:
        raise InvalidInputError(
            "“{path}” has {n} bytes.", hint="At most {limit}.", path=name, n=n_bytes,
            limit=MAX_BYTES,
        )  # fmt: skip
