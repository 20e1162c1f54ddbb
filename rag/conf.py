"""Settings: ``settings.RAG`` as one frozen, typed object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed


@dataclass(frozen=True, slots=True)
class Conf:
    """What an installation may choose; defaults and environment names are in project.settings."""

    embedding_model: str
    chat_model: str
    quote_schema: bool
    analysis_model: str
    e5_precision: str
    embedding_threads: int
    embedding_dim: int
    query_prefix: str
    passage_prefix: str
    openai_base_url: str
    openai_api_key: str = field(repr=False)
    chat_endpoints: Mapping[str, Mapping[str, str]] = field(repr=False)
    gemini_api_key: str = field(repr=False)
    gemini_base_url: str
    gemini_api_version: str
    gemini_model: str
    gemini_max_file_mb: int
    timeout_s: float
    upload_timeout_s: float
    default_store_backend: str
    files_total_mb: int
    max_file_bytes: int
    hnsw_min_chunks: int
    models_dir: Path
    plugins: tuple[str, ...]
    splitter: str
    parsers: Mapping[str, str]
    ocr_max_pages: int
    plugin_options: Mapping[str, Mapping[str, Any]]
    secrets: Mapping[str, str | Mapping[str, Any]] = field(repr=False)
    source_databases: tuple[str, ...]
    fetch_hosts: tuple[str, ...]
    sync_folders: tuple[str, ...]
    connections_dir: Path
    redis_url: str = field(repr=False)
    search_provider: str
    milvus_uri: str
    milvus_token: str = field(repr=False)
    s3_endpoint: str
    s3_region: str
    s3_access_key: str = field(repr=False)
    s3_secret_key: str = field(repr=False)
    s3_session_token: str = field(repr=False)
    rerank_url: str
    rerank_key: str = field(repr=False)
    rerank_model: str
    likeness: Mapping[str, Sequence[Sequence[float]]]
    prices: Mapping[str, Mapping[str, object]]
    query_log_days: int
    usage_days: int
    api_requests_per_minute: int
    api_failures_per_minute: int

    @property
    def secret_values(self) -> list[str]:
        """Return what the named secrets are, wherever they may be sent."""
        known = self.secrets.values()
        return [str(one.get("value", "") if isinstance(one, Mapping) else one) for one in known]


@lru_cache(maxsize=1)
def conf() -> Conf:
    """Return the current settings; read once, again after a test overrides them."""
    return Conf(**{name.lower(): value for name, value in settings.RAG.items()})


def _forget(*, setting: str, **_: object) -> None:
    if setting == "RAG":
        conf.cache_clear()


setting_changed.connect(_forget)
