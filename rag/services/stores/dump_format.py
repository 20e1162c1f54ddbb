"""Dump format: gzipped JSON lines, first a header, last the counts.

Each line is an object whose ``line`` names its kind. Another version is refused, never guessed.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rag.core.errors import ConfigurationError, DocumentError
from rag.services.stores.update import CHANGEABLE

FORMAT, VERSION = "citable-store", 1
# Fields of the rows as they travel; ids are those of the installation that wrote them.
# A further column needs a further VERSION.
STORE_FIELDS = CHANGEABLE
FILE_FIELDS = (
    "id",
    "name",
    "sha256",
    "size",
    "kind",
    "encoding",
    "encoding_override",
    "canonical_text",
    "pages",
    "blocks",
    "parser",
    "warnings",
    "content_type",
    "metadata",
    "max_tokens_per_chunk",
    "max_overlap_tokens",
    "revision",
)
CHUNK_FIELDS = (
    "id",
    "file_id",
    "ordinal",
    "char_start",
    "char_end",
    "own_start",
    "page_first",
    "page_last",
    "heading_path",
    "block_kinds",
    "token_count",
    "content_type",
    "text",
    "context",
    "sha256",
    "origin",
    "enabled",
    "is_live",
    "revision",
    "file_revision",
)
REVISION_FIELDS = (
    "chunk_id",
    "revision",
    "text",
    "char_start",
    "char_end",
    "page_first",
    "page_last",
    "file_revision",
)
# What bytes that are no such lines raise on their way.
_DAMAGE = (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError)


class DumpWriter:
    """Writes lines of a dump and counts them by kind."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.counts: dict[str, int] = {}

    def write(self, kind: str, values: Mapping[str, Any]) -> None:
        """Write one line."""
        line = json.dumps({"line": kind, **values}, ensure_ascii=False, default=str)
        self._stream.write(line.encode("utf-8", "surrogatepass") + b"\n")
        self.counts[kind] = self.counts.get(kind, 0) + 1


@contextmanager
def open_dump(path: Path) -> Iterator[DumpWriter]:
    """Write a dump to ``path``; it appears there when it is whole.

    Raises ConfigurationError when it cannot be written; nothing is left then.
    """
    part = path.with_name(path.name + ".part")
    try:
        with gzip.open(part, "wb", compresslevel=6) as stream:
            writer = DumpWriter(stream)  # type: ignore[arg-type]
            writer.write("header", {"format": FORMAT, "version": VERSION})
            yield writer
            writer.write("end", {"counts": dict(writer.counts)})
        part.replace(path)
    except OSError as error:
        raise ConfigurationError(
            "“{path}” could not be written: {reason}.",
            hint="See to the space and the permissions there, or write it elsewhere.",
            path=path,
            reason=error.strerror or error,
        ) from error
    finally:
        part.unlink(missing_ok=True)


def read_dump(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines between header and end; raise DocumentError for what is no whole dump."""
    counts: dict[str, int] = {}
    try:
        with gzip.open(path, "rb") as stream:
            for number, raw in enumerate(stream):
                line = json.loads(raw.decode("utf-8", "surrogatepass"))
                kind = line.pop("line")
                if number == 0:
                    _check_header(path, kind, line)
                elif kind == "end":
                    counts.pop("header", None)
                    declared = {name: n for name, n in line["counts"].items() if name != "header"}
                    if declared != counts:
                        raise _damaged(path, "lines are missing")
                    return
                else:
                    yield {"line": kind, **line}
                counts[kind] = counts.get(kind, 0) + 1
    except _DAMAGE as error:
        raise _damaged(path, str(error) or type(error).__name__) from error
    raise _damaged(path, "its end is missing")


def _check_header(path: Path, kind: str, line: Mapping[str, Any]) -> None:
    if kind != "header" or line.get("format") != FORMAT:
        raise _damaged(path, "it has no header")
    if line.get("version") != VERSION:
        raise DocumentError(
            "“{name}” has version {theirs} of the format, this installation reads {ours}.",
            hint="Bring both installations to the same release.",
            name=path.name,
            theirs=line.get("version"),
            ours=VERSION,
        )


def _damaged(path: Path, reason: str) -> DocumentError:
    return DocumentError(
        "“{name}” is no whole dump of a store: {reason}.",
        hint="Write it again with rag_dump.",
        name=path.name,
        reason=reason,
    )
