"""A Milvus for tests: milvus-lite on a folder of its own, one for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag.providers.milvus.server import MilvusServer
from rag.providers.postgres.outbox.rows import enable_outbox
from rag.services.wiring import registry as search_providers


@pytest.fixture(scope="module")
def milvus_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    pytest.importorskip("pymilvus", reason="the extra for Milvus is not installed")
    pytest.importorskip("milvus_lite", reason="the extra for Milvus is not installed")
    yield tmp_path_factory.mktemp("milvus") / "index.db"
    from milvus_lite.server_manager import server_manager_instance

    server_manager_instance.release_all()


@pytest.fixture
def server(milvus_file: Path, settings: Any) -> MilvusServer:
    values = {"SEARCH_PROVIDER": "milvus", "MILVUS_URI": str(milvus_file)}
    settings.RAG = settings.RAG | values
    enable_outbox(True)
    return search_providers.milvus_server()
