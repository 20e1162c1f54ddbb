"""What proposes chunks to a search. In: settings. Out: the search port, and Milvus for feeding."""

from __future__ import annotations

from functools import lru_cache

from rag.conf import conf
from rag.core.errors import ConfigurationError
from rag.core.ports import SearchIndex
from rag.providers.milvus.index import MilvusIndex
from rag.providers.milvus.server import TOKEN_SETTING, URI_SETTING, MilvusServer
from rag.providers.postgres.search import PostgresIndex


def postgres() -> SearchIndex:
    """Return the search of Postgres itself."""
    return PostgresIndex()


def milvus() -> SearchIndex:
    """Return the search by what the configured Milvus proposes."""
    return MilvusIndex(milvus_server())


def is_milvus() -> bool:
    """Return whether Milvus proposes chunks."""
    return conf().search_provider == "milvus"


def milvus_server() -> MilvusServer:
    """Return the configured Milvus; raise ConfigurationError where none is."""
    if not conf().milvus_uri:
        raise ConfigurationError(
            "No Milvus is set up.", hint="Set {uri} and, if it wants one, {token}.",
            uri=URI_SETTING, token=TOKEN_SETTING,
        )  # fmt: skip
    return _server(conf().milvus_uri, conf().milvus_token)


@lru_cache(maxsize=4)
def _server(uri: str, token: str) -> MilvusServer:
    return MilvusServer(uri, token)
