"""A store follows a feed: entries with their pages, those that left the feed too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rag.core.errors import ProviderError
from rag.plugins.connectors.feed import read_feed
from tests.factories import StoreFactory
from tests.fakes.loopback import Reply
from tests.fakes.website import Website, page
from tests.integration.connection_world import connect, outcome, sync_now

pytestmark = pytest.mark.django_db(transaction=True)
ATOM = (
    '<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>tag:1</id><title>Eins</title>'
    '<link href="/one"/><updated>2026-01-01</updated><content type="html">&lt;p&gt;Text&lt;/p&gt;'
    "</content></entry></feed>"
)


def rss(*entries: str) -> bytes:
    items = "".join(
        f"<item><title>News {one}</title><link>/n/{one}</link><guid>{one}</guid>"
        f"<description>Short word of {one}.</description></item>"
        for one in entries
    )
    return f"<rss><channel><title>News</title>{items}</channel></rss>".encode()


@pytest.fixture
def site(settings: Any) -> Iterator[Website]:
    settings.RAG = settings.RAG | {"FETCH_HOSTS": ("127.0.0.1",)}
    with Website() as server:
        for one in "abc":
            server.pages[f"/n/{one}"] = page(f"News {one}", f"The whole story of {one} is long.")
        yield server


def test_entries_come_with_their_pages_and_stay_when_the_feed_moves_on(site: Website) -> None:
    store = StoreFactory()
    site.pages["/feed"] = Reply(rss("a", "b"))
    connection = connect(store, "feed", address=f"{site.origin}/feed")
    assert outcome(sync_now(connection))["new"] == ["a", "b"]
    file = store.files.get(name="News a.html")
    assert b"The whole story of a" in file.content.read()
    assert file.origin_url == f"{site.origin}/n/a"
    site.pages["/feed"] = Reply(rss("b", "c"))
    site.calls.clear()
    told = outcome(sync_now(connection))
    assert (told["new"], told["same"], told["deleted"]) == (["c"], 2, [])
    assert [call.path for call in site.calls] == ["/feed", "/n/c"]
    del site.pages["/n/a"]
    site.pages["/feed"] = Reply(rss("a", "b").replace(b"News a", b"News A"))
    assert len(outcome(sync_now(connection))["failed"]) == 1
    assert store.files.count() == 3
    short = connect(store, "feed", name="short", address=f"{site.origin}/feed", reads_pages=False)
    assert outcome(sync_now(short))["new"] == ["a", "b"]
    site.pages["/feed"] = Reply(b"<html>a portal</html>")
    with pytest.raises(ProviderError, match="is no feed"):
        sync_now(connection)


def test_atom_is_read_and_entities_are_not() -> None:
    (entry,) = read_feed(ATOM.encode(), "https://e.org/feed") or []
    assert (entry.key, entry.title, entry.url) == ("tag:1", "Eins", "https://e.org/one")
    assert entry.html == "<p>Text</p>"
    bomb = '<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]>' + ATOM.replace("Eins", "&f;")
    (entry,) = read_feed(bomb.encode(), "https://e.org/feed") or []
    assert "root" not in entry.title
    assert read_feed(b"", "https://e.org/") is None
    assert read_feed(b"\x00", "https://e.org/") is None
