"""Ingest: parse, chunk, embed and activate a file's next revision, keeping manual edits."""

from __future__ import annotations

from rag.services.ingest.chunk_text import (
    EmbeddedText,
    clean_chunk_text,
    embed_chunk_text,
    index_chunk_text,
)
from rag.services.ingest.indexing import index_file, record_file_error
from rag.services.ingest.inline_worker import IngestProgress, run_until_indexed
from rag.services.ingest.preview import ChunkPreview, estimate_ingest, preview_chunks
from rag.services.ingest.recognition import is_ocr_installed
from rag.services.ingest.staged_revision import chunk_digest, indexed_text
