"""Store export: settings, files with bytes, chunks, edits and golden questions in one file.

The format is gzipped JSON lines, first a header, last the counts; each is an object whose ``line``
names its kind. Older versions are read, newer ones refused.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from django.core.files.storage import default_storage
from django.db import connection, transaction

from rag import models
from rag.core.errors import ConfigurationError, DocumentError
from rag.providers.postgres.db.connections import execute, fetch_rows
from rag.services.stores.lifecycle import CHANGEABLE

FORMAT, VERSION = "citable-store", 3
# What lines of older dumps do not tell, by the version that added it; it has its default then.
ADDED_FIELDS: dict[int, dict[str, tuple[str, ...]]] = {
    2: {"store": ("ocr", "reads_hidden_cells")},
    3: {"store": ("splitter",), "file": ("splitter",), "chunk": ("parent_start",)},
}
_ROWS = {"store": models.Store, "file": models.File, "chunk": models.Chunk}
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
    "splitter",
    "revision",
)
CHUNK_FIELDS = (
    "id",
    "file_id",
    "ordinal",
    "char_start",
    "char_end",
    "own_start",
    "parent_start",
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
SCAN_FIELDS = ("file_id", "sha256", "number", "engine", "confidence", "has_failed", "words")
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
        # A dump holds originals: other accounts of the machine do not read it.
        part.unlink(missing_ok=True)
        part.touch(mode=0o600)
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
    version = VERSION
    try:
        with gzip.open(path, "rb") as stream:
            for number, raw in enumerate(stream):
                line = json.loads(raw.decode("utf-8", "surrogatepass"))
                kind = line.pop("line")
                if number == 0:
                    version = _read_header(path, kind, line)
                elif kind == "end":
                    counts.pop("header", None)
                    declared = {name: n for name, n in line["counts"].items() if name != "header"}
                    if declared != counts:
                        raise _damaged(path, "lines are missing")
                    return
                else:
                    yield {"line": kind, **_defaults(version, kind), **line}
                counts[kind] = counts.get(kind, 0) + 1
    except _DAMAGE as error:
        raise _damaged(path, str(error) or type(error).__name__) from error
    raise _damaged(path, "its end is missing")


def _read_header(path: Path, kind: str, line: Mapping[str, Any]) -> int:
    """Return the version of the format."""
    if kind != "header" or line.get("format") != FORMAT:
        raise _damaged(path, "it has no header")
    version = line.get("version")
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise DocumentError(
            "“{name}” has version {theirs} of the format, this installation reads {ours}.",
            hint="Bring this installation to the release of the other.",
            name=path.name,
            theirs=version,
            ours=VERSION,
        )
    return version


@lru_cache(maxsize=64)
def _defaults(version: int, kind: str) -> Mapping[str, Any]:
    later = (fields for since, fields in ADDED_FIELDS.items() if since > version)
    added = [name for fields in later for name in fields.get(kind, ())]
    empty = _ROWS[kind]() if added else None
    return {name: getattr(empty, name) for name in added}


def _damaged(path: Path, reason: str) -> DocumentError:
    return DocumentError(
        "“{name}” is no whole dump of a store: {reason}.",
        hint="Dump it again with rag_dump.",
        name=path.name,
        reason=reason,
    )


PIECE = 1 << 20
BATCH = 500
_VECTORS = "SELECT chunk_id, embedding::text FROM rag_chunk_vec_s{space} WHERE chunk_id = ANY(%s)"


def dump_store(*, store: models.Store, path: Path, has_vectors: bool = False) -> dict[str, int]:
    """Write settings, files with their bytes, chunks with edits and golden questions to ``path``.

    Row by row, as of one moment, however large the store. Groups go by name; people do not go.
    Return how many lines of each kind. Raises InvalidInputError for a store at Gemini.
    """
    store.require_local()
    is_alone = not connection.in_atomic_block
    with open_dump(path) as out, transaction.atomic():
        if is_alone:
            execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        _write(store, out, has_vectors)
        return dict(out.counts)


def _write(store: models.Store, out: DumpWriter, has_vectors: bool) -> None:
    space = models.EmbeddingSpace.objects.get(pk=store.live_space_id)
    values = {name: getattr(store, name) for name in STORE_FIELDS}
    values["reader_groups"] = _names(store.reader_groups)
    values["editor_groups"] = _names(store.editor_groups)
    values["space"] = {"model": space.model, "dim": space.dim, "version": space.version}
    out.write("store", values | {"has_vectors": has_vectors})
    for pk in list(store.files.order_by("pk").values_list("pk", flat=True)):
        _file(models.File.objects.get(pk=pk), out, space.pk if has_vectors else None)
    for question in store.golden_questions.order_by("pk").iterator():
        targets = question.targets.values("file_id", "chunk_id", "grade")
        out.write(
            "question",
            {
                "query": question.query,
                "origin": question.origin,
                "enabled": question.enabled,
                "note": question.note,
                "targets": list(targets),
            },
        )


def _file(file: models.File, out: DumpWriter, space_id: int | None) -> None:
    values = {name: getattr(file, name) for name in FILE_FIELDS}
    out.write("file", values | {"restricted_to": _names(file.restricted_to)})
    for piece in _pieces(str(file.content.name)):
        out.write("bytes", {"file_id": file.pk, "data": base64.b64encode(piece).decode()})
    chunks = file.chunks.order_by("pk")
    for start in range(0, chunks.count(), BATCH):
        rows = list(chunks.values(*CHUNK_FIELDS)[start : start + BATCH])
        vectors = _vectors(space_id, [row["id"] for row in rows])
        for row in rows:
            vector = vectors.get(row["id"])
            out.write("chunk", row if vector is None else row | {"vector": vector})
    revisions = models.ChunkRevision.objects.filter(chunk__file=file).order_by("pk")
    for row in revisions.values(*REVISION_FIELDS).iterator():
        out.write("revision", row)
    scans = models.ScannedPage.objects.filter(file=file).order_by("pk")
    for scan in scans.values(*SCAN_FIELDS).iterator():
        out.write("scan", scan)
    for span in file.dropped_spans.values("file_id", "char_start", "char_end"):
        out.write("dropped", span)
    for conflict in file.conflicts.values("file_id", "chunk_id", "char_start", "file_revision"):
        out.write("conflict", conflict)


def _pieces(name: str) -> Iterator[bytes]:
    if not name or not default_storage.exists(name):
        return
    with default_storage.open(name, "rb") as stream:
        while piece := stream.read(PIECE):
            yield piece


def _vectors(space_id: int | None, chunk_ids: list[int]) -> dict[int, str]:
    if space_id is None:
        return {}
    return dict(fetch_rows(_VECTORS.format(space=int(space_id)), [chunk_ids]))


def _names(groups: Any) -> list[str]:
    return sorted(groups.values_list("name", flat=True))
