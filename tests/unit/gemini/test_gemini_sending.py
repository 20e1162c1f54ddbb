"""How large a file may be that goes to Gemini, told before anything is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag.core.documents import ChunkRule
from rag.core.errors import DocumentError, LimitError
from rag.core.file_search import Upload
from rag.providers.gemini.upload import check_size, prepare_upload
from rag.services.gemini import stores as file_search


def file_of(folder: Path, n_bytes: int) -> Path:
    path = folder / "notes.txt"
    with path.open("wb") as file:
        # Takes no room: the file has holes.
        file.truncate(n_bytes)
    return path


@pytest.mark.parametrize("max_mb", [1, 100, 2048])
def test_a_file_may_be_as_large_as_is_said(tmp_path: Path, max_mb: int) -> None:
    most = max_mb * 1024**2
    assert check_size(file_of(tmp_path, most), "手册.txt", max_mb) == most
    with pytest.raises(LimitError) as refused:
        check_size(file_of(tmp_path, most + 1), "手册.txt", max_mb)
    assert (
        str(refused.value) == f"“手册.txt” is larger than {max_mb} MB. Split it into smaller files."
    )


def test_by_its_documentation_gemini_takes_100_mb(tmp_path: Path) -> None:
    with pytest.raises(LimitError, match="larger than 100 MB"):
        check_size(file_of(tmp_path, 100 * 1024**2 + 1), "a.txt")
    with pytest.raises(DocumentError, match="is empty"):
        check_size(file_of(tmp_path, 0), "a.txt")


def test_the_setting_reaches_what_is_sent(
    tmp_path: Path, settings: Any, fresh_wiring: None
) -> None:
    settings.RAG = settings.RAG | {"GEMINI_API_KEY": "k", "GEMINI_MAX_FILE_MB": 3}
    backend: Any = file_search.gemini_file_search()
    limit = backend._options.sending.max_file_mb
    assert limit == 3
    upload = Upload(file_of(tmp_path, 3 * 1024**2 + 1), "a.txt", "", ChunkRule(200, 20))
    with pytest.raises(LimitError, match="larger than 3 MB"):
        prepare_upload("fileSearchStores/a", upload, limit)
