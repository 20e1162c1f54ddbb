"""A store follows a folder of a real WebDAV server on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from wsgidav.wsgidav_app import WsgiDAVApp

from rag.core.errors import InvalidInputError, NotFoundError, ProviderError
from rag.plugins.connectors.webdav import read_listing
from tests.factories import StoreFactory
from tests.integration.connection_world import connect, outcome, places, sync_now

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "never-to-be-told-5521"


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def address(tmp_path: Path, settings: Any) -> Iterator[str]:
    (tmp_path / "手册 a").mkdir()
    (tmp_path / ".hidden").mkdir()
    for place, text in (("a.txt", "one"), ("手册 a/b.txt", "two"), (".hidden/c.txt", "three")):
        (tmp_path / place).write_text(text)
    users = {"*": {"reader": {"password": SECRET}}}
    app = WsgiDAVApp(
        {
            "provider_mapping": {"/files": {"root": str(tmp_path), "readonly": True}},
            "simple_dc": {"user_mapping": users},
            "http_authenticator": {"accept_basic": True, "accept_digest": False},
            "verbose": 0,
            "logging": {"enable": False},
        }
    )
    secret = {"dav": {"value": SECRET, "hosts": ["127.0.0.1"]}, "wrong": "wrong-password"}
    settings.RAG = settings.RAG | {"FETCH_HOSTS": ("127.0.0.1",), "SECRETS": secret}
    with make_server("127.0.0.1", 0, app, handler_class=Quiet) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/files/"
        server.shutdown()


def test_a_folder_of_a_server_is_followed(address: str, tmp_path: Path) -> None:
    store = StoreFactory()
    connection = connect(store, "webdav", address=address, auth_user="reader", secret="dav")
    assert outcome(sync_now(connection))["new"] == ["a.txt", "手册 a/b.txt"]
    file = store.files.get(name="b.txt")
    assert file.content.read() == b"two"
    assert file.origin_url == f"{address}%E6%89%8B%E5%86%8C%20a/b.txt"
    assert sync_now(connection).plan.n_same == 2
    (tmp_path / "a.txt").rename(tmp_path / "手册 a" / "moved.txt")
    (tmp_path / "new.txt").write_text("a new one")
    told = outcome(sync_now(connection))
    assert (told["new"], told["renamed"], told["deleted"]) == (
        ["new.txt"],
        ["手册 a/moved.txt"],
        [],
    )
    assert set(places(store)) == {"new.txt", "手册 a/b.txt", "手册 a/moved.txt"}


def test_refusals_are_told_without_the_secret(address: str) -> None:
    store = StoreFactory()
    who = {"auth_user": "reader", "secret": "wrong"}
    with pytest.raises(ProviderError, match="HTTP 401") as refused:
        sync_now(connect(store, "webdav", address=address, **who))
    assert "wrong-password" not in str(refused.value)
    who["secret"] = "dav"
    with pytest.raises(NotFoundError, match="no folder"):
        sync_now(connect(store, "webdav", address=f"{address}gone/", **who))
    with pytest.raises(InvalidInputError, match="go together"):
        connect(store, "webdav", address=address, secret="dav")
    with pytest.raises(InvalidInputError, match="no web address"):
        connect(store, "webdav", address="https://u:p@example.org/")


def test_what_is_no_listing_is_none() -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><multistatus xmlns="DAV:">'
    assert read_listing(b"<html>a portal</html>") is None
    assert read_listing(b"") is None
    assert read_listing(bomb) is None
