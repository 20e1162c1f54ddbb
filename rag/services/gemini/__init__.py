"""Gemini File Search: its client, its stores beside our rows, synchronisation and upload."""

from __future__ import annotations

from rag.services.gemini.stores import (
    RemoteSyncResult,
    creating_remote_store,
    delete_remote_store,
    gemini_file_search,
    sync_store,
)
from rag.services.gemini.upload import FILE_KEY, upload_to_gemini
