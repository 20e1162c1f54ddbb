"""Settings: ``settings.RAG`` as one frozen, typed object, and all that another project is given.

Every default is here; ``project.settings`` fills them from the environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed
from django.templatetags.static import static

from rag.core.errors import ConfigurationError

OUR_PLUGINS = (
    "rag.plugins.enhancers",
    "rag.plugins.sources",
    "rag.plugins.connectors",
    "rag.services.wiring.rerankers",
    "rag.services.wiring.embeddings",
    "rag.services.wiring.chats",
    "rag.stages.parse.builtin",
    "rag.stages.chunking.splitters",
)
WORKER_DEFAULTS: dict[str, float] = {
    "concurrency": 2,
    # A job that waited for its file's lock, or for another try, is told by nobody.
    "fetch_job_polling_interval": 1.0,
    "shutdown_graceful_timeout": 20.0,
    "update_heartbeat_interval": 10.0,
    "stalled_worker_timeout": 30.0,
}


@dataclass(frozen=True, slots=True)
class Conf:
    """What an installation may choose; environment names are in project.settings."""

    embedding_model: str = "e5:multilingual-e5-small"
    chat_model: str = "extractive:sentences"
    quote_schema: bool = False
    ask_models: tuple[str, ...] = ()
    analysis_model: str = ""
    e5_precision: str = "int8"
    embedding_threads: int = 0
    embedding_dim: int = 0
    query_prefix: str = ""
    passage_prefix: str = ""
    openai_base_url: str = ""
    openai_api_key: str = field(default="", repr=False)
    chat_endpoints: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    gemini_api_key: str = field(default="", repr=False)
    gemini_base_url: str = ""
    gemini_api_version: str = "v1beta"
    gemini_model: str = "gemini-2.5-flash"
    gemini_max_file_mb: int = 100
    timeout_s: float = 120.0
    upload_timeout_s: float = 600.0
    default_store_backend: str = "local"
    files_total_mb: int = 200
    max_file_bytes: int = 100 * 1024 * 1024
    hnsw_min_chunks: int = 10_000
    models_dir: Path = field(default_factory=lambda: Path(settings.VAR_DIR) / "models")
    plugins: tuple[str, ...] = OUR_PLUGINS
    splitter: str = "sentences"
    parsers: Mapping[str, str] = field(default_factory=dict)
    ocr_max_pages: int = 2000
    plugin_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    secrets: Mapping[str, str | Mapping[str, Any]] = field(default_factory=dict, repr=False)
    source_databases: tuple[str, ...] = ()
    fetch_hosts: tuple[str, ...] = ()
    sync_folders: tuple[str, ...] = ()
    connections_dir: Path = field(default_factory=lambda: Path(settings.VAR_DIR) / "connections")
    redis_url: str = field(default="", repr=False)
    search_provider: str = "postgres"
    milvus_uri: str = ""
    milvus_token: str = field(default="", repr=False)
    s3_endpoint: str = ""
    s3_region: str = "us-east-1"
    s3_access_key: str = field(default="", repr=False)
    s3_secret_key: str = field(default="", repr=False)
    s3_session_token: str = field(default="", repr=False)
    rerank_url: str = ""
    rerank_key: str = field(default="", repr=False)
    rerank_model: str = ""
    likeness: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    prices: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    query_log_days: int = 0
    usage_days: int = 0
    api_requests_per_minute: int = 600
    api_failures_per_minute: int = 30

    @property
    def secret_values(self) -> list[str]:
        """Return what the named secrets are, wherever they may be sent."""
        known = self.secrets.values()
        return [str(one.get("value", "") if isinstance(one, Mapping) else one) for one in known]


@lru_cache(maxsize=1)
def conf() -> Conf:
    """Return the current settings; read once, again after a test overrides them."""
    known = {one.name.upper() for one in fields(Conf)}
    if unknown := sorted(name for name in settings.RAG if name.upper() not in known):
        raise ConfigurationError(
            "settings.RAG has {names}, which is no setting.",
            hint="There are: {known}.",
            names=", ".join(unknown),
            known=", ".join(sorted(known)),
        )
    return Conf(**{name.lower(): value for name, value in settings.RAG.items()})


def _forget(*, setting: str, **_: object) -> None:
    if setting == "RAG":
        conf.cache_clear()


setting_changed.connect(_forget)


_APPS = (
    "django.contrib.postgres",
    "procrastinate.contrib.django",
    "rest_framework",
)
# What describes the API; all else our views say themselves.
REST_DEFAULTS = {"DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema"}
# Tells logs and the audit who asks; first, so that it sees every answer.
TELEMETRY = "rag.api.http.request_telemetry.request_telemetry"
# Of what our own site has and another may lack: single sign-on, second factors, metrics.
_HOST_DEFAULTS: Mapping[str, Any] = {
    "AGENTS": {},
    "LOGIN_URL": "chat-login",
    "MCP_PATH": "",
    "METRICS_TOKEN": "",
    "OIDC_ISSUER": "",
    "OIDC_CLIENT_ID": "",
    "OIDC_CLIENT_SECRET": "",
    "OIDC_GROUPS": {},
    "OIDC_STAFF_GROUPS": [],
    "RAG": {},
    "SECOND_FACTOR": "off",
}
_NEEDED = (*_HOST_DEFAULTS, "PROCRASTINATE_WORKER_DEFAULTS", "VAR_DIR", "MEDIA_ROOT")
INSTALL_HINT = (
    "End your settings with: from rag.conf import install_settings; install_settings(globals())"
)


def install_settings(host: dict[str, Any]) -> None:
    """Complete the settings of another project, at their end: what it has set stays.

    Data lies in ``VAR_DIR``, which is ``var`` beside manage.py unless the project names another.
    """
    apps = _with_needed(list(host["INSTALLED_APPS"]))
    middleware = host.get("MIDDLEWARE", [])
    var_dir = host["VAR_DIR"] = Path(host.get("VAR_DIR") or Path(host["BASE_DIR"]) / "var")
    given = host.get("RAG", {})
    with_agents = ("agents.tools",) if "agents" in apps else ()
    host["INSTALLED_APPS"] = apps
    host["MIDDLEWARE"] = [*(() if TELEMETRY in middleware else (TELEMETRY,)), *middleware]
    host["MEDIA_ROOT"] = host.get("MEDIA_ROOT") or var_dir / "media"
    workers = host.get("PROCRASTINATE_WORKER_DEFAULTS", {})
    host["PROCRASTINATE_WORKER_DEFAULTS"] = WORKER_DEFAULTS | workers
    plugins = dict.fromkeys((*OUR_PLUGINS, *with_agents, *given.get("PLUGINS", ())))
    host["RAG"] = {**given, "PLUGINS": tuple(plugins)}
    if "unfold" in apps:
        theme = host.get("UNFOLD", {})
        styles = dict.fromkeys((*theme.get("STYLES", ()), _desk_css))
        host["UNFOLD"] = {**theme, "STYLES": list(styles)}
    host["REST_FRAMEWORK"] = REST_DEFAULTS | host.get("REST_FRAMEWORK", {})
    for name, value in _HOST_DEFAULTS.items():
        host.setdefault(name, value)


def _desk_css(request: object) -> str:
    return static("rag/admin/desk.css")


def _with_needed(apps: list[str]) -> list[str]:
    """Return the apps with those before ``rag`` that it stands on."""
    first = apps.index("rag") if "rag" in apps else len(apps)
    lacking = [one for one in _APPS if one not in apps[:first]]
    rest = [one for one in apps[first:] if one not in lacking] or ["rag"]
    return [*apps[:first], *lacking, *rest]


def missing_settings() -> list[str]:
    """Return the names of settings and apps that nobody has set, empty where all is there."""
    apps = [one for one in _APPS if one not in settings.INSTALLED_APPS]
    return [*apps, *(name for name in _NEEDED if not hasattr(settings, name))]
