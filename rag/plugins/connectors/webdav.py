"""Connector ``webdav``: the files of a WebDAV folder, at Nextcloud and others; ETags are marks."""

from __future__ import annotations

from base64 import b64encode
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import quote, unquote, urlsplit

from django.utils.translation import gettext_noop

from rag.core.connectors import ConnectorContext, OriginDocument
from rag.core.errors import InvalidInputError, NotFoundError, ProviderError
from rag.core.options import option
from rag.core.plugins import register
from rag.core.sources import FetchRequest

MAX_LIST_BYTES, MAX_FOLDERS = 50_000_000, 20_000
_ASKED = (
    b'<?xml version="1.0"?><d:propfind xmlns:d="DAV:"><d:prop><d:resourcetype/>'
    b"<d:getcontentlength/><d:getetag/><d:getlastmodified/></d:prop></d:propfind>"
)


@dataclass(frozen=True, slots=True)
class DavEntry:
    """What a folder tells of one of its parts; ``path`` is that of its address, decoded."""

    path: str
    is_folder: bool
    size: int
    mark: str


@register("connector")
class WebDavConnector:
    """All files below a folder of a WebDAV server, by their paths relative to it."""

    name = "webdav"
    label = gettext_noop("WebDAV (Nextcloud and others)")

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """Which folder, who asks, and how its files are opened."""

        address: str = option(help="Web address of the folder on the WebDAV server.")
        auth_user: str = option("", help="User name; empty: nobody signs in.")
        secret: str = option("", help="Name of the secret: the password.", is_secret=True)

    def __init__(self, options: Options) -> None:
        parts = urlsplit(options.address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise InvalidInputError(
                "“{url}” is no web address.",
                hint="Write it like {example}.",
                url=options.address,
                example="https://cloud.example.org/remote.php/dav/files/user/manuals/",
            )
        if bool(options.auth_user) != bool(options.secret):
            raise InvalidInputError(
                "A user name and a secret go together.", hint="Give both, or neither."
            )
        self._options = options
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._root = unquote(parts.path).rstrip("/") + "/"
        self.origin_name = f"{parts.hostname}{self._root.rstrip('/')}"

    def __str__(self) -> str:
        return self._options.address

    def list(self, context: ConnectorContext) -> Iterator[OriginDocument]:
        """Yield each file; raise for a folder that cannot be listed: never less than all."""
        todo, seen = deque([self._root]), {self._root}
        n_listed = 0
        while todo:
            if len(seen) > MAX_FOLDERS:
                raise ProviderError(
                    "There are more than {limit} folders.",
                    hint="Follow a part of them.",
                    limit=MAX_FOLDERS,
                )
            folder = todo.popleft()
            for entry in self._entries(folder, context):
                place = entry.path.rstrip("/") + "/" if entry.is_folder else entry.path
                # A server may name anything: what does not lie in the folder is not followed.
                if place == folder or not place.startswith(folder):
                    continue
                document = OriginDocument(place.removeprefix(self._root), entry.size, entry.mark)
                if document.is_hidden or ".." in place.split("/"):
                    continue
                if entry.is_folder and place not in seen:
                    seen.add(place)
                    todo.append(place)
                elif not entry.is_folder:
                    n_listed += 1
                    context.tell(n_listed)
                    url = self._origin + quote(entry.path)
                    yield OriginDocument(document.path, entry.size, entry.mark, url)

    def since(self, context: ConnectorContext) -> None:
        """Return None: a server tells what is there, not what changed."""

    @contextmanager
    def fetch(self, document: OriginDocument, context: ConnectorContext) -> Iterator[IO[bytes]]:
        """Download one file into the sync's folder and open it."""
        place = context.scratch / "document"
        with place.open("w+b") as sink:
            url = self._origin + quote(self._root + document.path)
            context.download(self._request(url, context, max_bytes=context.max_bytes), sink)
            sink.seek(0)
            yield sink
        place.unlink()

    def permissions(self, document: OriginDocument) -> None:
        """Return None: WebDAV tells what the one who asks may do, not who else may."""

    def _request(self, url: str, context: ConnectorContext, **more: Any) -> FetchRequest:
        headers = more.pop("headers", {})
        if self._options.secret:
            secret = context.secret(self._options.secret, url=url).strip()
            pair = b64encode(f"{self._options.auth_user}:{secret}".encode()).decode()
            headers = {**headers, "Authorization": f"Basic {pair}"}
        return FetchRequest(url, headers=headers, retries=1, **more)

    def _entries(self, folder: str, context: ConnectorContext) -> Sequence[DavEntry]:
        request = self._request(
            self._origin + quote(folder),
            context,
            method="PROPFIND",
            headers={"Depth": "1", "Content-Type": "application/xml"},
            body=_ASKED,
            max_bytes=MAX_LIST_BYTES,
        )
        try:
            found = read_listing(context.fetch(request).body)
        except ProviderError as error:
            if error.params.get("status") == 404:
                raise NotFoundError("There is no folder “{path}”.", path=folder) from error
            raise
        if found is None:
            raise ProviderError(
                "“{address}” is answered with something that is no list.",
                hint="Check the address: is it that of a WebDAV folder?",
                address=self,
            )
        return found


def read_listing(body: bytes) -> list[DavEntry] | None:
    """Return what a PROPFIND answer tells; None for what is none. Entities are not resolved."""
    # Heavy, and only for those who follow a WebDAV folder.
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        root: Any = etree.fromstring(body, parser=parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    if root is None or root.tag != "{DAV:}multistatus":
        return None
    entries = []
    for one in root.iter("{DAV:}response"):
        path = unquote(urlsplit(one.findtext("{DAV:}href", "")).path)
        size = one.findtext(".//{DAV:}getcontentlength") or "0"
        mark = one.findtext(".//{DAV:}getetag") or one.findtext(".//{DAV:}getlastmodified") or ""
        is_folder = one.find(".//{DAV:}resourcetype/{DAV:}collection") is not None
        entries.append(DavEntry(path, is_folder, int(size) if size.isdigit() else 0, mark))
    return entries
