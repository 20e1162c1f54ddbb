"""Staged revision: chunk, embed and write a file's next revision in resumable batches.

Searches never see a staged row before it is activated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any

from rag import models
from rag.core.documents import Block, Chunk, Notice, Page, ParsedDocument
from rag.core.ports import Embedder
from rag.providers.postgres.lexical.bm25 import bm25_weights
from rag.providers.postgres.write import staging
from rag.services.wiring import registry as wiring
from rag.services.wiring.registry import embedder_for
from rag.stages.chunking.chunk import chunk_document
from rag.stages.text.terms import VERSION, index_terms, is_han

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = dict[int, NDArray[np.float32]]

BATCH = 32
Holes = Sequence[tuple[int, int]]
GivesWay = Callable[[], bool]


def never_gives_way() -> bool:
    """Return False: nothing else waits."""
    return False


def stage_revision(
    *,
    file: models.File,
    document: ParsedDocument,
    fresh_vectors: bool,
    holes: Holes = (),
    gives_way: GivesWay = never_gives_way,
) -> int | None:
    """Write the rows that the file's draft still lacks; return the number of all its rows.

    None where ``gives_way``, asked between batches, said so: the rows stay for the next time.
    ``holes`` are spans, in order, of chunks that stay: the rest is cut around them.
    """
    embedder = embedder_for(store=file.store)
    fingerprint = _fingerprint(file, document, (fresh_vectors, *holes))
    n_done = staging.begin_staging(file.pk, fingerprint)
    rule = file.chunk_rule
    cutter = wiring.splitter(rule.splitter)
    made = chunk_document(document, rule, embedder.tokenizer, holes, cutter)
    chunks = islice(made, n_done, None)
    claimed: set[str] = set()
    pending: tuple[list[Chunk], Future[Vectors]] | None = None
    with ThreadPoolExecutor(1, "embed") as pool:
        while batch := list(islice(chunks, BATCH)):
            fresh = batch if fresh_vectors else _without_vector(file, batch, claimed)
            # The next batch is cut while the model works on the one before.
            job = pool.submit(_embed, embedder, fresh)
            if pending:
                n_done += _write(file, fingerprint, document, *pending)
            pending = (batch, job)
            if gives_way():
                _write(file, fingerprint, document, *pending)
                return None
        if pending:
            n_done += _write(file, fingerprint, document, *pending)
    return n_done


def _fingerprint(file: models.File, document: ParsedDocument, options: tuple[Any, ...]) -> str:
    store = file.store
    parts = (
        hashlib.sha256(document.text.encode("utf-8", "surrogatepass")).hexdigest(),
        file.chunk_rule,
        wiring.splitter_id(file.chunk_rule.splitter),
        store.live_space_id,
        VERSION,
        options,
        file.revision,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def chunk_digest(chunk: Chunk) -> str:
    """Return what makes two chunks the same for their vector: text and carried header."""
    return hashlib.sha256(f"{chunk.context}\0{chunk.text}".encode()).hexdigest()


def indexed_text(chunk: Chunk) -> str:
    """Return what of a chunk is embedded and made searchable."""
    return f"{chunk.context}\n{chunk.text}" if chunk.context else chunk.text


def _without_vector(file: models.File, batch: list[Chunk], claimed: set[str]) -> list[Chunk]:
    """Return the chunks whose text no live chunk holds; each live vector is claimed once."""
    digests = [chunk_digest(chunk) for chunk in batch]
    known = staging.reusable_texts(file.pk, file.store.live_space_id, digests) - claimed
    fresh = []
    for chunk, key in zip(batch, digests, strict=True):
        if key in known:
            known.discard(key)
            claimed.add(key)
        else:
            fresh.append(chunk)
    return fresh


def _embed(embedder: Embedder, chunks: list[Chunk]) -> Vectors:
    vectors = embedder.embed_passages([indexed_text(chunk) for chunk in chunks])
    return {chunk.ordinal: vector for chunk, vector in zip(chunks, vectors, strict=True)}


def _write(
    file: models.File,
    fingerprint: str,
    document: ParsedDocument,
    batch: list[Chunk],
    job: Future[Vectors],
) -> int:
    rows = []
    for chunk in batch:
        text = indexed_text(chunk)
        counts = index_terms(text)
        weights = bm25_weights(file.store_id, counts, file.store.avg_len_frozen)
        rows.append((chunk, chunk_digest(chunk), is_han(text), sum(counts.values()), weights))
    vectors = job.result()
    staging.stage_rows(
        file.pk,
        fingerprint,
        [staging.StagedRow(*row, vector=vectors.get(row[0].ordinal)) for row in rows],
    )
    done = batch[-1]
    share = done.char_end / max(1, len(document.text))
    progress = {"stage": "embedding", "chunks": done.ordinal + 1, "share": round(share, 4)}
    models.File.objects.filter(pk=file.pk).update(progress=progress)
    return len(batch)


def stored_document(*, file: models.File) -> ParsedDocument | None:
    """Return what the file was last read as, None where it was never read."""
    if not file.revision or not file.canonical_text:
        return None
    # What is said of the rule is said anew.
    again = file.chunk_rule.notice.message if file.chunk_rule.notice else ""
    notices = [Notice.from_dict(one) for one in file.warnings if isinstance(one, dict)]
    return ParsedDocument(
        kind=file.kind,
        text=file.canonical_text,
        parser=file.parser,
        encoding=file.encoding,
        pages=tuple(Page(**page) for page in file.pages),
        blocks=tuple(Block(**block) for block in file.blocks),
        warnings=tuple(one for one in notices if one.message != again),
    )
