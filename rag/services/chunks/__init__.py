"""Chunks that people work on: find, add, edit, delete, revisions, conflicts after a re-ingest."""

from __future__ import annotations

from rag.services.chunks.add import add_chunk, delete_chunks
from rag.services.chunks.conflicts import (
    discard_conflict,
    keep_conflict,
    move_conflict,
    neighbour_chunk,
)
from rag.services.chunks.edit import chunk_revisions, edit_chunk, restore_revision
from rag.services.chunks.find import find_chunks, find_first_chunks, find_passages, hold_chunks
