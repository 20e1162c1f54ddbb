"""Base of the built-in parsers; each loads its library at its first file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rag.core.documents import ParsedDocument
from rag.core.ocr.scans import PageWords

NOTHING_RECOGNIZED: Mapping[int, PageWords] = MappingProxyType({})


class BuiltinParser:
    """``parse_NAME`` of the module NAME, which ``module`` names from this folder on."""

    kinds: tuple[str, ...]
    module: str
    # What it is told beside path and name: kind, encoding, recognized.
    takes: tuple[str, ...] = ()

    @dataclass(frozen=True)
    class Options:
        pass

    def __init__(self, options: Any) -> None:
        self._told: dict[str, Any] = {}

    def parse(
        self,
        path: Path,
        *,
        name: str,
        kind: str,
        encoding: str,
        recognized: Mapping[int, PageWords] = NOTHING_RECOGNIZED,
    ) -> ParsedDocument:
        """Return the document; raise DocumentError saying what is wrong with it.

        ``recognized`` are the words of pages that OCR has read, by their number.
        """
        # Each brings a heavy library; a child process reads one file and needs one of them.
        reader = import_module(f"rag.stages.parse.{self.module}")
        told: dict[str, Any] = {"kind": kind, "encoding": encoding, "recognized": recognized}
        parse = getattr(reader, f"parse_{self.module.rpartition('.')[2]}")
        told = {**{one: told[one] for one in self.takes}, **self._told}
        found: ParsedDocument = parse(path, name, **told)
        return found
