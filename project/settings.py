"""Django settings; the only reader of the environment. Every variable is in README's table."""

from __future__ import annotations

import contextlib
import os
import secrets
from datetime import timedelta
from pathlib import Path
from typing import Any

from agents.conf import AGENT_DEFAULTS
from project import cors_headers
from project.accounts.sign_on_settings import sign_on_providers
from project.admin_theme import UNFOLD as UNFOLD
from project.environment import Environment
from project.logs import FORMATS, LEVELS, SECRET_SETTINGS, logging_config
from project.postgres import paths as postgres_paths
from rag.conf import OUR_PLUGINS, REST_DEFAULTS, WORKER_DEFAULTS, Conf

BASE_DIR = Path(__file__).resolve().parent.parent
env = Environment()
Environment.read_env(str(BASE_DIR / ".env"))

# Beside manage.py; installed from a wheel, where programs keep what is somebody's own.
_own = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "citable"
_home = BASE_DIR / "var" if (BASE_DIR / "manage.py").exists() else _own
VAR_DIR: Path = Path(env.str("CITABLE_VAR", default=str(_home)))
DEBUG = env.flag("DEBUG", default=False)
ALLOWED_HOSTS: list[str] = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS: list[str] = env.list("CSRF_TRUSTED_ORIGINS", default=[])
# People reach the site by TLS alone. Whether a request came so is said by a proxy that the web
# server trusts (--forwarded-allow-ips), never by a header of any other.
HTTPS = env.flag("HTTPS", default=False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = ["^healthz$", "^readyz$", "^metrics$"]
SECURE_HSTS_SECONDS = env.whole("HSTS_SECONDS", default=31_536_000) if HTTPS else 0
# Subdomains and the browsers' preload lists are for the owner of the whole domain to decide.
SECURE_HSTS_INCLUDE_SUBDOMAINS = env.flag("HSTS_SUBDOMAINS", default=False)
# The last: LoginThrottleMiddleware stands in the place of the middleware of django-axes.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021", "axes.W002"]


# Pages of these origins may call the APIs with a key of their own; cookies never go along.
CORS_ALLOWED_ORIGINS: list[str] = env.list("CORS_ALLOWED_ORIGINS", default=[])
CORS_URLS_REGEX = r"^/(api|v1|mcp)(/|$)"
CORS_ALLOW_HEADERS, CORS_EXPOSE_HEADERS = cors_headers.REQUEST, cors_headers.RESPONSE


def _secret_key() -> str:
    """Return the configured key, or one made once for this installation and kept in var/."""
    configured: str = env.str("SECRET_KEY", default="")
    if configured:
        return configured
    path = VAR_DIR / "secret_key"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"secret_key.{os.getpid()}")
        fresh.touch(mode=0o600)
        fresh.write_text(secrets.token_urlsafe(50), encoding="ascii")
        # Of processes that start at once one links its key; the others read that one.
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
        fresh.unlink()
    return path.read_text(encoding="ascii")


SECRET_KEY = _secret_key()

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "procrastinate.contrib.django",
    "corsheaders",
    "rest_framework",
    "drf_spectacular",
    "ninja",
    "axes",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.mfa",
    "rag",
    "agents",
    "project.apps.TelemetryConfig",
]
MIDDLEWARE = [
    "rag.api.http.request_telemetry.request_telemetry",
    "django.middleware.security.SecurityMiddleware",
    "project.middleware.ContentSecurityMiddleware",
    "project.middleware.StaticFilesMiddleware",
    "project.middleware.AsyncSessionMiddleware",
    "project.middleware.AsyncLocaleMiddleware",
    "corsheaders.middleware.CorsMiddleware",
    "project.middleware.JsonCompression",
    "project.middleware.ApiEnvelope",
    "project.middleware.AsyncCommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "project.middleware.AsyncAuthenticationMiddleware",
    "project.middleware.AsyncMessageMiddleware",
    "project.middleware.LoginThrottleMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
REST_FRAMEWORK: dict[str, Any] = REST_DEFAULTS | {"TEST_REQUEST_DEFAULT_FORMAT": "json"}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Citable",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": True,
    "SCHEMA_PATH_PREFIX": "/api",
    "ENUM_NAME_OVERRIDES": {"FileStatus": "rag.models.File.Status"},
}
ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"
# Where that serves the Model Context Protocol.
MCP_PATH = "/mcp"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates", BASE_DIR / "project" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

DATABASE_URL = env.str("DATABASE_URL", default="")
# The embedded server, None when DATABASE_URL names another; options go to ``postgres -c``.
POSTGRES_DATA_DIR = None if DATABASE_URL else postgres_paths.data_dir(VAR_DIR)
POSTGRES_OPTIONS: dict[str, str] = env.pairs("POSTGRES_OPTIONS")
DATABASES: dict[str, dict[str, Any]] = {
    "default": env.database("DATABASE_URL", DATABASE_URL)
    if POSTGRES_DATA_DIR is None
    else {
        "NAME": "citable",
        "USER": postgres_paths.USER,
        "HOST": str(postgres_paths.socket_dir(POSTGRES_DATA_DIR)),
        "PORT": postgres_paths.PORT,
    }
}
DATABASES["default"] |= {"ENGINE": "project.db", "CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": True}
DATABASES["default"]["OPTIONS"] = {
    "connect_timeout": 10,
    "pool": {
        "min_size": 0,
        "max_size": env.whole("DATABASE_POOL_SIZE", default=8, least=1),
        "timeout": 10,
    },
} | DATABASES["default"].get("OPTIONS", {})
# Other databases that sources may read, by name.
SOURCE_DATABASES: dict[str, str] = env.table("RAG_SOURCE_DATABASES")
DATABASES |= {
    name: env.source_database("RAG_SOURCE_DATABASES", url) for name, url in SOURCE_DATABASES.items()
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env.str("REDIS_URL", default="")
# Search results have connections of their own to that server: they wait for it far less.
CACHES: dict[str, Any] = {
    "default": {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "django",
        "OPTIONS": {"SOCKET_CONNECT_TIMEOUT": 0.5, "SOCKET_TIMEOUT": 0.5},
    }
    if REDIS_URL
    else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
}
# A server that is gone is an empty cache, told in the log.
DJANGO_REDIS_IGNORE_EXCEPTIONS = DJANGO_REDIS_LOG_IGNORED_EXCEPTIONS = True

LOGIN_URL = "chat-login"
# Who opens the login page itself is led to the desk.
LOGIN_REDIRECT_URL = "admin:index"
_VALIDATORS = "django.contrib.auth.password_validation"
AUTH_PASSWORD_VALIDATORS: list[dict[str, Any]] = [
    {
        "NAME": f"{_VALIDATORS}.MinimumLengthValidator",
        "OPTIONS": {"min_length": env.whole("PASSWORD_MIN_LENGTH", default=10, least=8)},
    },
    {"NAME": f"{_VALIDATORS}.CommonPasswordValidator"},
    {"NAME": f"{_VALIDATORS}.NumericPasswordValidator"},
    {"NAME": f"{_VALIDATORS}.UserAttributeSimilarityValidator"},
]
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
# Failures to log in until who tries must wait: of one account from one address (or in a browser in
# which it has signed in before), of one account from anywhere, of one address with any accounts.
LOGIN_FAILURES = {
    "pair": env.whole("LOGIN_FAILURES", default=5, least=1),
    "account": env.whole("LOGIN_FAILURES_ACCOUNT", default=20, least=1),
    "address": env.whole("LOGIN_FAILURES_ADDRESS", default=100, least=1),
}
LOGIN_LOCK_MINUTES = env.whole("LOGIN_LOCK_MINUTES", default=15, least=1)
AXES_HANDLER = "project.accounts.throttle.LoginThrottle"
AXES_CLIENT_IP_CALLABLE = "project.accounts.throttle.client_address"
# The handler says whether one of its limits is reached, which is once.
AXES_FAILURE_LIMIT, AXES_COOLOFF_TIME = 1, timedelta(minutes=LOGIN_LOCK_MINUTES)
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_RESET_ON_SUCCESS = AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = AXES_VERBOSE = False
# The log tells the address of each failure; names are kept out, as some are passwords.
AXES_SENSITIVE_PARAMETERS = ["username"]
# Single sign-on by OpenID Connect; off without an issuer.
OIDC_ISSUER, OIDC_NAME = env.str("OIDC_ISSUER", default=""), env.str("OIDC_NAME", default="SSO")
OIDC_CLIENT_ID = env.str("OIDC_CLIENT_ID", default="")
OIDC_CLIENT_SECRET = env.str("OIDC_CLIENT_SECRET", default="")
OIDC_SCOPES: list[str] = env.list("OIDC_SCOPES", default=["openid", "profile", "email"])
# Groups of the provider to groups of ours: {"kb-readers": "Readers"}; without them all may come in.
OIDC_GROUPS_CLAIM = env.str("OIDC_GROUPS_CLAIM", default="groups")
OIDC_GROUPS: dict[str, str] = env.table("OIDC_GROUPS")
OIDC_STAFF_GROUPS: list[str] = env.list("OIDC_STAFF_GROUPS", default=[])
SOCIALACCOUNT_PROVIDERS = sign_on_providers(
    OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET, OIDC_NAME, OIDC_SCOPES
)
SOCIALACCOUNT_ADAPTER = "project.accounts.oidc.SignOnAccounts"
SOCIALACCOUNT_LOGIN_ON_GET, SOCIALACCOUNT_EMAIL_VERIFICATION = True, "none"
ACCOUNT_ADAPTER = "project.accounts.second_factor.Accounts"
ACCOUNT_EMAIL_VERIFICATION, ACCOUNT_UNIQUE_EMAIL = "none", False
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
# Codes of an authenticator (TOTP): nobody's, everybody's who wants, or required of staff.
SECOND_FACTOR = env.choice("SECOND_FACTOR", default="off", allowed=("off", "optional", "staff"))
MFA_ADAPTER = "project.accounts.second_factor.SealedSecrets"
MFA_FORMS = {"authenticate": "project.accounts.second_factor.CodeForm"}
MFA_TOTP_ISSUER, MFA_TOTP_TOLERANCE = "Citable", 1
# How long somebody stays signed in: without a request, and in any case.
SESSION_ENGINE = "project.accounts.session"
SESSION_IDLE_S = 60 * env.whole("SESSION_IDLE_MINUTES", default=1440)
SESSION_MAX_S = 3600 * env.whole("SESSION_MAX_HOURS", default=336)
SESSION_COOKIE_AGE = SESSION_MAX_S or 1_209_600
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LANGUAGE_CODE = env.choice("LANGUAGE_CODE", default="en", allowed=[code for code, _ in LANGUAGES])
LOCALE_PATHS = [BASE_DIR / "locale"]
FORMAT_MODULE_PATH = "project.formats"
TIME_ZONE = env.time_zone("TIME_ZONE", default="UTC")
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
# Before the files of the apps: a build of a script of the admin's theme that needs no eval.
STATICFILES_DIRS = [BASE_DIR / "project" / "static"]
STATIC_ROOT = VAR_DIR / "static"
WHITENOISE_USE_FINDERS = True
MEDIA_ROOT = Path(env.str("MEDIA_ROOT", default=str(VAR_DIR / "media")))
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}
# Uploads go to disk in pieces; nothing but small forms is held in memory.
FILE_UPLOAD_HANDLERS = ["rag.services.files.upload_handler.CappedUploadHandler"]
# On the data's own disk, where the upkeep finds what a killed process has left.
FILE_UPLOAD_TEMP_DIR = VAR_DIR / "incoming"
FILE_UPLOAD_TEMP_DIR.mkdir(parents=True, exist_ok=True, mode=0o700)
# Other accounts of the machine read no originals.
FILE_UPLOAD_PERMISSIONS, FILE_UPLOAD_DIRECTORY_PERMISSIONS = 0o600, 0o700
DATA_UPLOAD_MAX_MEMORY_SIZE = 5 * 1024 * 1024

PROCRASTINATE_WORKER_DEFAULTS: dict[str, float] = WORKER_DEFAULTS | {
    "concurrency": env.whole("WORKER_CONCURRENCY", default=2, least=1),
    "shutdown_graceful_timeout": env.number("WORKER_SHUTDOWN_TIMEOUT", default=20.0),
    "update_heartbeat_interval": env.number("WORKER_HEARTBEAT", default=10.0, least=0.1),
    "stalled_worker_timeout": env.number("WORKER_STALLED_AFTER", default=30.0, least=0.1),
}
_rag = Conf(models_dir=VAR_DIR / "models", connections_dir=VAR_DIR / "connections")
RAG: dict[str, Any] = {
    "EMBEDDING_MODEL": env.str("RAG_EMBEDDING_MODEL", default=_rag.embedding_model),
    "CHAT_MODEL": env.str("RAG_CHAT_MODEL", default=_rag.chat_model),
    "ASK_MODELS": tuple(env.list("RAG_ASK_MODELS", default=[])),
    "QUOTE_SCHEMA": env.flag("RAG_QUOTE_SCHEMA", default=_rag.quote_schema),
    "ANALYSIS_MODEL": env.str("RAG_ANALYSIS_MODEL", default=_rag.analysis_model),
    "E5_PRECISION": env.choice(
        "RAG_E5_PRECISION", default=_rag.e5_precision, allowed=("int8", "fp32")
    ),
    "EMBEDDING_THREADS": env.whole("RAG_EMBEDDING_THREADS", default=_rag.embedding_threads),
    "EMBEDDING_DIM": env.whole("RAG_EMBEDDING_DIM", default=_rag.embedding_dim),
    "QUERY_PREFIX": env.str("RAG_QUERY_PREFIX", default=_rag.query_prefix),
    "PASSAGE_PREFIX": env.str("RAG_PASSAGE_PREFIX", default=_rag.passage_prefix),
    "OPENAI_BASE_URL": env.str("RAG_OPENAI_BASE_URL", default=_rag.openai_base_url),
    "OPENAI_API_KEY": env.str("RAG_OPENAI_API_KEY", default=_rag.openai_api_key),
    "CHAT_ENDPOINTS": env.table("RAG_CHAT_ENDPOINTS"),
    "GEMINI_API_KEY": env.str("GEMINI_API_KEY", default=_rag.gemini_api_key),
    "GEMINI_BASE_URL": env.str("GEMINI_BASE_URL", default=_rag.gemini_base_url),
    "GEMINI_API_VERSION": env.str("GEMINI_API_VERSION", default=_rag.gemini_api_version),
    "GEMINI_MODEL": env.str("GEMINI_MODEL", default=_rag.gemini_model),
    "GEMINI_MAX_FILE_MB": env.whole("GEMINI_MAX_FILE_MB", default=_rag.gemini_max_file_mb),
    "TIMEOUT_S": env.number("RAG_TIMEOUT_S", default=_rag.timeout_s, least=0.1),
    "UPLOAD_TIMEOUT_S": env.number(
        "RAG_UPLOAD_TIMEOUT_S", default=_rag.upload_timeout_s, least=0.1
    ),
    "DEFAULT_STORE_BACKEND": env.str(
        "RAG_DEFAULT_STORE_BACKEND", default=_rag.default_store_backend
    ),
    "FILES_TOTAL_MB": env.whole("RAG_FILES_TOTAL_MB", default=_rag.files_total_mb),
    "MAX_FILE_BYTES": _rag.max_file_bytes,
    "HNSW_MIN_CHUNKS": env.whole("RAG_HNSW_MIN_CHUNKS", default=_rag.hnsw_min_chunks),
    "MODELS_DIR": _rag.models_dir,
    "PLUGINS": (
        *OUR_PLUGINS,
        "agents.tools",
        *env.list("RAG_PLUGINS", default=[]),
    ),
    "SPLITTER": env.str("RAG_SPLITTER", default=_rag.splitter),
    # {"pdf": "name", ".srt": "name"}: kinds or suffixes that a parser of a plugin reads.
    "PARSERS": env.table("RAG_PARSERS"),
    # Scanned pages of a file beyond that are told, not read.
    "OCR_MAX_PAGES": env.int("RAG_OCR_MAX_PAGES", default=_rag.ocr_max_pages),
    # {"kind.name": {"option": value}} of plugins that settings choose, such as "reranker.endpoint".
    "PLUGIN_OPTIONS": env.table("RAG_PLUGIN_OPTIONS"),
    "SECRETS": env.table("RAG_SECRETS"),
    "SOURCE_DATABASES": tuple(SOURCE_DATABASES),
    "FETCH_HOSTS": tuple(env.list("RAG_FETCH_HOSTS", default=[])),
    "SYNC_FOLDERS": tuple(env.list("RAG_SYNC_FOLDERS", default=[])),
    "CONNECTIONS_DIR": _rag.connections_dir,
    "REDIS_URL": REDIS_URL,
    "SEARCH_PROVIDER": env.choice(
        "RAG_SEARCH_PROVIDER", default="postgres", allowed=("postgres", "milvus")
    ),
    "MILVUS_URI": env.str("RAG_MILVUS_URI", default=_rag.milvus_uri),
    "MILVUS_TOKEN": env.str("RAG_MILVUS_TOKEN", default=_rag.milvus_token),
    "S3_ENDPOINT": env.str("AWS_ENDPOINT_URL", default=_rag.s3_endpoint),
    "S3_REGION": env.str("AWS_REGION", default=_rag.s3_region),
    "S3_ACCESS_KEY": env.str("AWS_ACCESS_KEY_ID", default=_rag.s3_access_key),
    "S3_SECRET_KEY": env.str("AWS_SECRET_ACCESS_KEY", default=_rag.s3_secret_key),
    "S3_SESSION_TOKEN": env.str("AWS_SESSION_TOKEN", default=_rag.s3_session_token),
    "RERANK_URL": env.str("RAG_RERANK_URL", default=_rag.rerank_url),
    "RERANK_KEY": env.str("RAG_RERANK_KEY", default=_rag.rerank_key),
    "RERANK_MODEL": env.str("RAG_RERANK_MODEL", default=_rag.rerank_model),
    # What a cosine of an embedding model means, from 0 to 1: {"provider:model": [[0.3, 0.5], ...]}.
    "LIKENESS": env.table("RAG_LIKENESS"),
    "PRICES": env.table("RAG_PRICES"),
    "QUERY_LOG_DAYS": env.whole("RAG_QUERY_LOG_DAYS", default=_rag.query_log_days),
    "USAGE_DAYS": env.whole("RAG_USAGE_DAYS", default=_rag.usage_days),
    "API_REQUESTS_PER_MINUTE": env.whole(
        "RAG_API_REQUESTS_PER_MINUTE", default=_rag.api_requests_per_minute
    ),
    "API_FAILURES_PER_MINUTE": env.whole(
        "RAG_API_FAILURES_PER_MINUTE", default=_rag.api_failures_per_minute
    ),
}

LOGGING = logging_config(
    env.choice("LOG_LEVEL", default="INFO", allowed=LEVELS),
    env.choice("LOG_FORMAT", default="plain", allowed=FORMATS),
    {"django": SECRET_KEY, **{name: RAG[name] for name in SECRET_SETTINGS}},
)
METRICS_TOKEN = env.str("METRICS_TOKEN", default="")
OTEL_ENDPOINT = env.str("OTEL_EXPORTER_OTLP_ENDPOINT", default="")

AGENTS: dict[str, Any] = {
    "ENGINE": env.choice(
        "AGENT_ENGINE", default=AGENT_DEFAULTS["ENGINE"], allowed=("langgraph", "plain")
    ),
    "FINISHES_ALONE": env.flag("AGENT_FINISHES_ALONE", default=AGENT_DEFAULTS["FINISHES_ALONE"]),
    "PING_S": env.number("AGENT_PING_S", default=AGENT_DEFAULTS["PING_S"], least=0.1),
    "KEEP_EVENTS_H": env.number("AGENT_KEEP_EVENTS_H", default=AGENT_DEFAULTS["KEEP_EVENTS_H"]),
    "KEEP_SESSIONS_DAYS": env.number(
        "AGENT_KEEP_SESSIONS_DAYS", default=AGENT_DEFAULTS["KEEP_SESSIONS_DAYS"]
    ),
    "KEEP_RUNS_DAYS": env.number("AGENT_KEEP_RUNS_DAYS", default=AGENT_DEFAULTS["KEEP_RUNS_DAYS"]),
    "KEEP_MEMORIES_DAYS": env.number(
        "AGENT_KEEP_MEMORIES_DAYS", default=AGENT_DEFAULTS["KEEP_MEMORIES_DAYS"]
    ),
}
