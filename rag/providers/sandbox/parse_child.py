"""Parser child process: ``python -m rag.providers.sandbox.parse_child FOLDER``.

Reads ``FOLDER/job``; writes ``FOLDER/text`` and ``FOLDER/facts``, or an error in ``FOLDER/facts``.
It knows no Django, holds no database and no network connection, and may be killed at any moment.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any

from rag.core.disk_full import is_disk_full
from rag.core.documents import Block, Page, ParsedDocument
from rag.core.errors import DocumentError
from rag.core.ocr.scans import PageWords
from rag.core.options import read_options
from rag.stages.parse import parse_document

OUT_OF_MEMORY, DISK_FULL = 3, 4
_page_row = attrgetter(*(field.name for field in fields(Page)))
_block_row = attrgetter(*(field.name for field in fields(Block)))
# What one file's text and blocks may take on disk.
MAX_FILE_BYTES = 2 * 1024**3


def main(folder: Path) -> int:
    """Parse within the job's limits, write what came of it and return the exit code."""
    job = json.loads((folder / "job").read_text(encoding="utf-8"))
    limit_process(job)
    try:
        _parse(folder, job)
    except MemoryError:
        return OUT_OF_MEMORY
    except OSError as error:
        if not is_disk_full(error):
            raise
        return DISK_FULL
    return 0


def _parse(folder: Path, job: dict[str, Any]) -> None:
    try:
        sys.path.extend(job["import_path"])
        parsers = {key: _plugin(of) for key, of in job["parsers"].items()}
        path, recognized = Path(job["path"]), KeptPages(folder / "recognized")
        document = parse_document(path, job["name"], job["encoding"], parsers, recognized)
        _write_text(folder, document.text)
        write_facts(folder, _facts(document))
    except DocumentError as error:
        write_facts(folder, {"error": error.as_dict()})


def _plugin(of: dict[str, Any]) -> Any:
    found = attrgetter(of["class"])(import_module(of["module"]))
    return found(read_options(found.Options, of["options"], of=found.name))


class KeptPages(Mapping[int, PageWords]):
    """The recognized pages in a folder, by their number, each read when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self._paths = {int(one.name): one for one in folder.glob("*")}

    def __getitem__(self, number: int) -> PageWords:
        return PageWords.from_json(self._paths[number].read_text("utf-8", "surrogatepass"))

    def __iter__(self) -> Iterator[int]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def limit_process(job: dict[str, Any]) -> None:
    """Limit this process to the job's ``cpu_s`` and ``memory_bytes``."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (job["cpu_s"], job["cpu_s"] + 5))
    resource.setrlimit(resource.RLIMIT_AS, (job["memory_bytes"], job["memory_bytes"]))


def write_facts(folder: Path, facts: dict[str, Any]) -> None:
    """Write what came of a job, whole or not at all."""
    partial = folder / "facts.partial"
    with partial.open("w", encoding="utf-8") as file:
        json.dump(facts, file)
    partial.rename(folder / "facts")


def _facts(document: ParsedDocument) -> dict[str, Any]:
    return {
        "kind": document.kind,
        "parser": document.parser,
        "encoding": document.encoding,
        "title": document.title,
        "warnings": [notice.as_dict() for notice in document.warnings],
        "pages": list(map(_page_row, document.pages)),
        "blocks": list(map(_block_row, document.blocks)),
    }


def _write_text(folder: Path, text: str) -> None:
    with (folder / "text").open("w", encoding="utf-8", newline="") as file:
        for start in range(0, len(text), 1 << 20):
            file.write(text[start : start + (1 << 20)])


def _die(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.__excepthook__(kind, error, trace)
    sys.stderr.flush()
    os._exit(1)


if __name__ == "__main__":
    # Threads of native libraries may abort a process that tidies up after itself.
    sys.excepthook = _die
    os._exit(main(Path(sys.argv[1])))
