"""Fake S3 bucket on a loopback port: ListObjectsV2 with pages, and GET.

As Amazon and MinIO answer: keys are URL-encoded in lists where that is asked for, errors are XML.
Signatures are not computed; the name of the access key must be the right one.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from email.utils import format_datetime
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape

from tests.fakes.loopback import Call, LoopbackServer, Reply

ACCESS_KEY = "AKIACITABLE"
CHANGED = datetime(2026, 11, 1, tzinfo=UTC)


class S3Server(LoopbackServer):
    """Holds one bucket; ``page`` is how many keys a list tells at a time."""

    def __init__(self, bucket: str = "docs", page: int = 1000) -> None:
        super().__init__()
        self.objects: dict[str, bytes] = {}
        self._bucket, self._page = bucket, page

    def n_fetched(self, key: str = "") -> int:
        """Return how often an object, or any, was fetched."""
        fetched = [one for one in self.calls if "list-type" not in one.query]
        return sum(not key or unquote(one.path).endswith(f"/{key}") for one in fetched)

    def answer(self, call: Call) -> Reply:
        _, bucket, key = (
            unquote(call.path).split("/", 2)
            if call.path.count("/") > 1
            else (
                "",
                unquote(call.path).lstrip("/"),
                "",
            )
        )
        sent = re.search(r"Credential=([^/]+)/", call.headers.get("authorization", ""))
        if sent is None or sent[1] != ACCESS_KEY:
            return _error("AccessDenied", "Access Denied.", 403)
        if bucket != self._bucket:
            return _error("NoSuchBucket", "The specified bucket does not exist", 404)
        return self._get(key) if key else self._list(call)

    def _get(self, key: str) -> Reply:
        body = self.objects.get(key)
        if body is None:
            return _error("NoSuchKey", "The specified key does not exist.", 404)
        headers = {"ETag": _etag(body), "Last-Modified": format_datetime(CHANGED, usegmt=True)}
        return Reply(body, headers=headers)

    def _list(self, call: Call) -> Reply:
        prefix, after = call.query.get("prefix", ""), call.query.get("continuation-token", "")
        found = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
        page, rest = found[: self._page], found[self._page :]
        is_url = call.query.get("encoding-type") == "url"
        spelled = quote if is_url else escape
        coding = "<EncodingType>url</EncodingType>" if is_url else ""
        rows = "".join(
            f"<Contents><Key>{spelled(key)}</Key><LastModified>{CHANGED:%Y-%m-%dT%H:%M:%S.000Z}"
            f"</LastModified><ETag>{escape(_etag(self.objects[key]))}</ETag>"
            f"<Size>{len(self.objects[key])}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            for key in page
        )
        more = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if rest else ""
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>'
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{self._bucket}</Name><Prefix>{spelled(prefix)}</Prefix>"
            f"<KeyCount>{len(page)}</KeyCount><MaxKeys>{self._page}</MaxKeys>"
            f"<IsTruncated>{str(bool(rest)).lower()}</IsTruncated>{coding}{more}{rows}</ListBucketResult>"
        )
        return Reply(body.encode(), headers={"Content-Type": "application/xml"})


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'


def _error(code: str, message: str, status: int) -> Reply:
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return Reply(body.encode(), status, {"Content-Type": "application/xml"})
