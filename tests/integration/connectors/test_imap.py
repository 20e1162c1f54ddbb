"""A store follows a mailbox of a real IMAP server on loopback."""

from __future__ import annotations

import imaplib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rag.core.errors import InvalidInputError, NotFoundError, ProviderError
from rag.plugins.connectors.imap import ImapConnector
from tests.factories import StoreFactory
from tests.integration.connection_world import connect, errors_of, outcome, sync_now

pytestmark = pytest.mark.django_db(transaction=True)
PASSWORD = "never-to-be-told-9917"


@pytest.fixture
def port(settings: Any) -> Iterator[int]:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    program = str(Path(sys.executable).with_name("pymap"))
    words = ["--host", "127.0.0.1", "--port", f"{number}", "--no-tls", "dict", "--demo-data"]
    words += ["--demo-user", "reader", "--demo-password", PASSWORD]
    settings.RAG = settings.RAG | {"FETCH_HOSTS": ("127.0.0.1",), "SECRETS": {"mail": PASSWORD}}
    with subprocess.Popen([program, *words], stderr=subprocess.DEVNULL) as process:
        for _ in range(200):
            with closing(socket.socket()) as trial:
                if trial.connect_ex(("127.0.0.1", number)) == 0:
                    break
            time.sleep(0.02)
        yield number
        process.kill()


def test_messages_are_followed_read_only_and_bounded(port: int) -> None:
    store = StoreFactory()
    account = {"host": "127.0.0.1", "port": port, "uses_tls": False, "user": "reader"}
    connection = connect(store, "imap", secret="mail", **account)
    assert len(outcome(sync_now(connection))["new"]) == 4
    file = store.files.get(name="Hello, World!.eml")
    assert b"Subject" in file.content.read() or file.size > 1000
    client = imaplib.IMAP4("127.0.0.1", port)
    client.login("reader", PASSWORD)
    client.select("INBOX")
    big = b"Subject: =?utf-8?b?6ZmE5Lu2?=\r\n\r\n" + b"x" * 1_100_000
    client.append("INBOX", "", "", big)
    client.append("INBOX", "", "", b"Subject: =?utf-8?b?5rC05rO1?=\r\n\r\nThe pump.")
    first = client.uid("SEARCH", "ALL")[1][0].split()[0]
    client.uid("STORE", first.decode(), "+FLAGS", r"(\Deleted)")
    client.expunge()
    connection.options["max_message_mb"] = 1
    connection.save()
    told = outcome(sync_now(connection))
    assert (len(told["new"]), told["same"], len(told["deleted"])) == (1, 3, 1)
    assert store.files.filter(name="水泵.eml").exists()
    assert "附件" in errors_of(connection) and "larger than" in errors_of(connection)
    seen = client.uid("FETCH", "102:*", "(FLAGS)")[1]
    assert not any(rb"\Seen" in row for row in seen[-1:])
    with pytest.raises(NotFoundError, match="no mailbox"):
        sync_now(connect(store, "imap", secret="mail", mailbox="Nope", **account))
    account["user"] = "nobody"
    with pytest.raises(ProviderError, match="refuses") as refused:
        sync_now(connect(store, "imap", secret="mail", **account))
    assert PASSWORD not in str(refused.value)


def test_names_that_would_speak_to_the_server_are_refused() -> None:
    for bad in ({"mailbox": 'a" x'}, {"mailbox": "a\r\nDELETE"}, {"host": "a b"}, {"host": "a/b"}):
        with pytest.raises(InvalidInputError):
            values = {"host": "mail.example.org", "user": "u", "secret": "s", **bad}
            ImapConnector(ImapConnector.Options(**values))
