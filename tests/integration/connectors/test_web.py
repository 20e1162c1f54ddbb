"""A store follows a website on loopback, through the guarded network, whatever the site does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rag import models
from rag.core.errors import ForbiddenError, ProviderError
from tests.factories import StoreFactory
from tests.fakes.loopback import Call, Fault, Reply
from tests.fakes.website import Website, page
from tests.integration.connection_world import connect, errors_of, outcome, places, sync_now

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def site(settings: Any) -> Iterator[Website]:
    settings.RAG = settings.RAG | {"FETCH_HOSTS": ("127.0.0.1",)}
    with Website() as server:
        server.pages = {
            "/": page(
                "Pumps", "All about pumps and how they are mended.", "/a", "b?utm_source=x#t"
            ),
            "/a": page("Pump A", "Pump A delivers 12 litres a minute at 5 bar.", "/c"),
            "/b": page("水泵 B", "水泵 B 每分钟输送 20 升，保修期两年。"),
            "/c": page("Pump C", "Pump C is out of stock since spring.", "/", "/a"),
        }
        yield server


def follow(site: Website, store: models.Store, **options: Any) -> models.Connection:
    return connect(store, "web", start=f"{site.origin}/", **options)


def own(paths: Any) -> list[str]:
    """Return paths without the host, which has another port each time."""
    return sorted("/" + path.partition("/")[2] for path in paths)


def test_pages_are_read_without_menus_and_known_by_their_addresses(site: Website) -> None:
    store = StoreFactory()
    result = sync_now(follow(site, store))
    assert own(result.plan.new) == ["/", "/a", "/b", "/c"]
    assert sorted(places(store).values()) == [
        "Pump A.html",
        "Pump C.html",
        "Pumps.html",
        "水泵 B.html",
    ]
    file = store.files.get(name="水泵 B.html")
    text = file.content.read().decode()
    assert "每分钟输送 20 升" in text and "Home of the menu" not in text and "Imprint" not in text
    assert file.origin_url == f"{site.origin}/b"
    assert sorted(site.asked()) == ["/", "/a", "/b", "/c"]


def test_unchanged_pages_are_asked_conditionally_and_changes_followed(site: Website) -> None:
    store, n_before = StoreFactory(), len(site.calls)
    connection = follow(site, store)
    sync_now(connection)
    versions = dict(store.files.values_list("name", "updated_at"))
    site.calls.clear()
    again = sync_now(connection)
    assert (again.plan.n_same, again.queued, again.failed) == (4, [], [])
    assert all("if-none-match" in call.headers for call in site.calls if len(call.path) < 3)
    assert dict(store.files.values_list("name", "updated_at")) == versions
    site.pages["/a"] = page("Pump A", "Pump A delivers 13 litres a minute at 6 bar.", "/d")
    site.pages["/d"] = page("Pump D", "Pump D is new and quiet.")
    site.pages["/e"] = site.pages.pop("/b")
    site.pages["/d2"] = page("Nobody", "Nobody leads here, so it is not found.")
    site.pages["/c"] = page("Pump C", "Pump C is out of stock since spring.", "/e")
    told = outcome(sync_now(connection))
    assert {kind: own(told[kind]) for kind in ("new", "changed", "renamed", "deleted")} == {
        "new": ["/d"],
        "changed": ["/a", "/c"],
        "renamed": ["/e"],
        "deleted": [],
    }
    del site.pages["/d"]
    assert own(outcome(sync_now(connection))["deleted"]) == ["/d"]
    assert n_before == 0


def test_the_sitemap_spares_requests_and_rules_are_kept(site: Website) -> None:
    store = StoreFactory()
    urls = "".join(
        f"<url><loc>{site.origin}{path}</loc><lastmod>2026-01-01</lastmod></url>"
        for path in ("/", "/a", "/b", "/c", "/lone", "/private/x", "/draft/y")
    )
    site.pages["/sitemap.xml"] = Reply(f"<urlset>{urls}</urlset>".encode())
    site.pages["/robots.txt"] = Reply(b"User-agent: *\nDisallow: /private/\n")
    for path in ("/lone", "/private/x", "/draft/y"):
        site.pages[path] = page(path, f"What is written at {path} is this sentence.")
    connection = follow(site, store, exclude=["/draft/*"], depth=0)
    assert own(sync_now(connection).plan.new) == ["/", "/a", "/b", "/c", "/lone"]
    assert "robots.txt forbids" in errors_of(connection)
    site.calls.clear()
    assert sync_now(connection).plan.n_same == 5
    assert site.asked() == []
    included = connect(store, "web", name="other", start=f"{site.origin}/", include=["/draft"])
    assert own(sync_now(included).plan.new) == ["/draft/y"]


def test_canonical_addresses_redirects_and_other_kinds(site: Website) -> None:
    store = StoreFactory()
    site.pages |= {
        "/": page(
            "Start", "The start page of the site.", "/print", "/old", "/m.pdf", "/x.png", "/n", "/e"
        ),
        "/print": page("P", "Printed form of it.", head='<link rel="canonical" href="/a">'),
        "/old": Reply(b"", 301, {"Location": "/b"}),
        "/m.pdf": Reply(b"%PDF-1.4 not really", 200, {"Content-Type": "application/pdf"}),
        "/n": page("N", "Not to be indexed.", head='<meta name="robots" content="noindex">'),
        "/e": "<html><body></body></html>",
    }
    connection = follow(site, store)
    assert own(sync_now(connection).plan.new) == ["/", "/a", "/b", "/c", "/m.pdf"]
    assert store.files.get(name="m.pdf").content.read() == b"%PDF-1.4 not really"
    said = errors_of(connection)
    assert "not to be indexed" in said and "beside menus" in said and "by its own word" in said
    without = connect(store, "web", name="without", start=f"{site.origin}/m.pdf", documents=False)
    assert sync_now(without).plan.new == []


def _endless(call: Call) -> Reply:
    if not call.path.startswith("/day/"):
        return Reply(b"", 404)
    n = int(call.path.rpartition("/")[2] or 0)
    body = page(
        f"Day {n}", f"Nothing happens on day {n}.", f"/day/{n + 1}", f"/day/{n + 2}", "x/y/"
    )
    return Reply(body.encode(), 200, {"Content-Type": "text/html"})


def test_a_site_without_end_is_bounded_told_and_loses_nothing(site: Website) -> None:
    store = StoreFactory()
    site.pages = {"*": _endless}
    connection = connect(store, "web", start=f"{site.origin}/day/0", exclude=["/x/"])
    models.Connection.objects.update(max_documents=20)
    result = sync_now(connection)
    assert (len(result.plan.new), result.failed) == (20, [])
    assert "more than {limit} documents" in errors_of(connection)
    assert len(site.calls) < 100
    site.pages = {"/day/0": page("Day 0", "Only this day is left.")}
    models.Connection.objects.update(max_documents=20)
    sync_now(connection, is_forced=True)
    assert store.files.count() == 1


def test_what_is_too_large_or_breaks_off_stops_no_other_and_deletes_nothing(
    site: Website, settings: Any
) -> None:
    store = StoreFactory()
    settings.RAG = settings.RAG | {"MAX_FILE_BYTES": 3000}
    connection = follow(site, store)
    sync_now(connection)
    lies = {"Content-Type": "text/html", "Content-Length": "10000000000"}
    site.pages["/a"] = Reply(b"", 200, {"Content-Type": "text/html"}, events=[b"x" * 2000] * 50)
    site.pages["/b"] = Reply(b"<html>", 200, lies)
    site.fail(Fault(status=500, on="GET /c", times=9))
    result = sync_now(connection)
    assert sorted(own(path for path, _ in result.failed)) == ["/a", "/b", "/c"]
    assert (result.plan.n_same, result.plan.deleted, store.files.count()) == (1, [], 4)


def test_a_site_that_leads_inward_or_is_not_there_is_told(site: Website, settings: Any) -> None:
    store = StoreFactory()
    site.pages["/a"] = Reply(b"", 302, {"Location": "http://169.254.169.254/latest/meta-data/"})
    connection = follow(site, store)
    assert own(sync_now(connection).plan.new) == ["/", "/b"]
    assert "no address of the public internet" in errors_of(connection)
    site.pages["/robots.txt"] = Reply(b"", 503)
    with pytest.raises(ProviderError, match="503"):
        sync_now(connection)
    settings.RAG = settings.RAG | {"FETCH_HOSTS": ()}
    with pytest.raises(ForbiddenError):
        sync_now(connection)
    assert store.files.count() == 2
    run = connection.runs.first()
    assert run is not None and run.state == "failed"


def test_a_site_that_goes_down_ends_the_sync_early(site: Website) -> None:
    store = StoreFactory()
    links = [f"/p/{n}" for n in range(60)]
    site.pages = {"/": page("Start", "The start page of the site.", *links)}
    site.fail(Fault(status=502, on="GET /p/", times=1000))
    connection = follow(site, store)
    result = sync_now(connection)
    assert own(result.plan.new) == ["/"]
    assert "does not answer any more" in errors_of(connection)


def test_a_secret_goes_to_its_site_alone(site: Website, settings: Any) -> None:
    store, secret = StoreFactory(), "never-to-be-told-4410"
    settings.RAG = settings.RAG | {"SECRETS": {"site": secret}}
    with Website() as other:
        site.pages["/robots.txt"] = Reply(f"Sitemap: {other.origin}/map.xml".encode())
        site.pages["/a"] = Reply(b"", 302, {"Location": f"{other.origin}/b"})
        sync_now(follow(site, store, secret="site"))
        assert [call.path for call in other.calls] == ["/map.xml", "/b"]
        assert not any(secret in str(call.headers) for call in other.calls)
    assert all(call.headers["authorization"] == f"Bearer {secret}" for call in site.calls)


def test_what_is_thrown_away_counts_too(site: Website, settings: Any) -> None:
    settings.RAG = settings.RAG | {"MAX_FILE_BYTES": 400_000}
    site.pages = {"*": lambda call: Reply(b"", 200, {}, events=[b"x" * 200_000] * 5000)}
    site.pages["/robots.txt"] = site.pages["/sitemap.xml"] = Reply(b"", 404)
    site.pages["/"] = page("Start", "The start page.", *[f"/{n}" for n in range(40)])
    connection = follow(site, StoreFactory(), max_megabytes=1, parallel=1)
    assert own(sync_now(connection).plan.new) == ["/"]
    assert "MB were fetched" in errors_of(connection)
