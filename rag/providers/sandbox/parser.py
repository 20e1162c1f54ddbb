"""Sandboxed parser: the Parser port, each file in a limited child process."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from rag.core.documents import Block, Notice, Page, ParsedDocument
from rag.core.errors import ConfigurationError, DocumentError
from rag.providers.sandbox.parse_child import DISK_FULL, OUT_OF_MEMORY
from rag.providers.sandbox.process import child_folder, run_child

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SandboxedParser:
    """The parser port: a spawned process per file with limits on memory, CPU and time."""

    memory_bytes: int = 1536 * 1024**2
    cpu_s: int = 120
    wall_s: float = 180.0
    # By kind or suffix: module, class and options of the plugin that reads it.
    parsers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def parse(
        self,
        path: Path,
        name: str,
        *,
        encoding: str = "",
        recognized: Iterable[tuple[int, str]] = (),
    ) -> ParsedDocument:
        """Return the document; raise DocumentError, also when the process was killed.

        ``encoding`` overrules the detection for kinds of text. ``recognized`` are pages that OCR
        has read. Raises ConfigurationError when there is no room for temporary files.
        """
        try:
            return self._parse(path, name, encoding, recognized)
        except OSError as error:
            raise ConfigurationError(
                "“{name}” could not be read: {reason}.",
                hint="Make room for temporary files in {folder}, and index it again.",
                name=name,
                reason=error.strerror or error,
                folder=gettempdir(),
            ) from error

    def _parse(
        self, path: Path, name: str, encoding: str, recognized: Iterable[tuple[int, str]]
    ) -> ParsedDocument:
        with child_folder() as folder:
            job = {
                "path": str(path.absolute()),
                "name": name,
                "encoding": encoding,
                "cpu_s": self.cpu_s,
                "memory_bytes": self.memory_bytes,
                "parsers": dict(self.parsers),
                "import_path": sys.path if self.parsers else [],
            }
            (folder / "recognized").mkdir()
            for number, page in recognized:
                (folder / "recognized" / str(number)).write_text(page, "utf-8", "surrogatepass")
            # A name may hold what no command line takes: NULs, or 200,000 letters.
            (folder / "job").write_text(json.dumps(job), encoding="utf-8")
            code = run_child("rag.providers.sandbox.parse_child", folder, self.wall_s)
            if code in (None, -signal.SIGXCPU):
                raise DocumentError(
                    "Reading “{name}” took longer than {s} seconds.",
                    hint="Split it, or save it anew in a simpler form.",
                    name=name,
                    s=int(min(self.cpu_s, self.wall_s)),
                )
            if code == DISK_FULL:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if code == 0 and (folder / "facts").exists():
                return _read(folder)
            complaint = _tail(folder / "complaint")
            # A library that cannot have more memory aborts; the kernel kills; Python returns.
            if code is not None and (code < 0 or code == OUT_OF_MEMORY or "Memory" in complaint):
                raise DocumentError(
                    "“{name}” is too complex to be read within {mb} MB of memory.",
                    hint="Split it, or save it anew in a simpler form.",
                    name=name,
                    mb=self.memory_bytes // 1024**2,
                )
            _log.error("The parser failed on %r: %s", name, complaint)
            raise DocumentError(
                "“{name}” cannot be read: its parser failed.",
                hint="Save it anew, or in another format, and upload that.",
                name=name,
            )


def _tail(path: Path) -> str:
    """Return the end of what a process complained about, which may be gigabytes."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4000))
        return file.read().decode("utf-8", "replace")


def _read(folder: Path) -> ParsedDocument:
    facts = json.loads((folder / "facts").read_text(encoding="utf-8"))
    if "error" in facts:
        raise DocumentError.from_dict(facts["error"])
    with (folder / "text").open(encoding="utf-8", newline="") as file:
        text = file.read()
    return ParsedDocument(
        facts["kind"],
        text,
        facts["parser"],
        tuple(Page(*row) for row in facts["pages"]),
        tuple(Block(*row) for row in facts["blocks"]),
        facts["encoding"],
        facts["title"],
        tuple(map(Notice.from_dict, facts["warnings"])),
    )
