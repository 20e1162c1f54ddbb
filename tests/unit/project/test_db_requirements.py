"""Which servers will do, and what is said of those that will not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import ConfigurationError
from rag.providers.postgres.db.requirements import (
    ServerVersions,
    check_server_versions,
    missing_extension,
)


@pytest.mark.parametrize("version", ["0.8.0", "0.8.6", "0.9", "0.10.1", "1.0"])
def test_a_new_enough_pgvector_will_do_installed_or_only_at_hand(version: str) -> None:
    check_server_versions(ServerVersions(15, installed=version, available=version))
    check_server_versions(ServerVersions(18, installed=None, available=version))
    check_server_versions(ServerVersions(18, installed=version, available=None))


@pytest.mark.parametrize("server", [9, 13, 14])
def test_an_old_postgres_is_refused_by_its_version(server: int) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_server_versions(ServerVersions(server, installed="0.8.6", available="0.8.6"))
    assert f"PostgreSQL {server} is too old: version 15" in str(caught.value)


def test_no_pgvector_at_all_says_how_to_get_it_for_that_server() -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_server_versions(ServerVersions(16, installed=None, available=None))
    sentence = str(caught.value)
    assert "has no pgvector: pgvector 0.8.0 or newer is needed" in sentence
    assert "apt-get install postgresql-16-pgvector" in sentence
    assert "pgvector/pgvector:pg16" in sentence
    assert "unset DATABASE_URL" in sentence


@pytest.mark.parametrize("version", ["0.7.4", "0.6.2", "0.5"])
def test_an_old_pgvector_is_named(version: str) -> None:
    for installed in (None, version):
        with pytest.raises(ConfigurationError, match=f"only pgvector {version}"):
            check_server_versions(ServerVersions(17, installed=installed, available=version))


def test_an_old_extension_beside_a_new_package_needs_only_an_update() -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_server_versions(
            ServerVersions(17, installed="0.7.4", available="0.8.1", database="books")
        )
    sentence = str(caught.value)
    assert "Database “books” uses pgvector 0.7.4" in sentence
    assert "ALTER EXTENSION vector UPDATE" in sentence
    assert "0.8.1" in sentence


def test_a_role_that_may_not_create_it_is_told_who_can() -> None:
    assert "Have a superuser run CREATE EXTENSION vector" in str(missing_extension("books"))


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_versions_compare_by_number(major: int, minor: int, patch: int) -> None:
    offer = ServerVersions(18, installed=f"{major}.{minor}.{patch}", available=None)
    if (major, minor, patch) >= (0, 8, 0):
        check_server_versions(offer)
    else:
        with pytest.raises(ConfigurationError):
            check_server_versions(offer)
