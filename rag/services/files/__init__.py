"""Files of a store: upload, replace, edit, move, requeue, export, delete."""

from __future__ import annotations

from rag.services.files.archives import UploadItem, collect_items, zip_items
from rag.services.files.bulk_upload import UploadRequest, UploadResult, upload_many
from rag.services.files.content import (
    MAX_CHARACTERS,
    document_text,
    documents_after,
    export_chunks,
    open_original,
    passage_text,
    stream_bytes,
    stream_lines,
)
from rag.services.files.delete import delete_files
from rag.services.files.edit import (
    cancel_files,
    move_files,
    retry_files,
    set_chunks_enabled,
    set_files_enabled,
    update_file,
)
from rag.services.files.replace import replace_file, set_encoding, set_splitter
from rag.services.files.requeue import QueuePlace, queue_places, requeue_files
from rag.services.files.upload import (
    FileAttributes,
    as_remote_document,
    chunk_rule_for,
    clean_name,
    clean_path,
    create_file,
    file_too_large,
    store_bytes,
    upload_document,
    upload_file,
)
from rag.services.files.upload_handler import CappedUploadHandler
from rag.services.files.visibility import visible_chunks, visible_files
