"""Connector ``s3``: a prefix of an S3 bucket, at Amazon, MinIO or others.

Keys come from the environment (see project.settings) and stand in no error.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any
from urllib.parse import urlsplit

from django.utils.translation import gettext_noop

from rag.conf import conf
from rag.core.connectors import ConnectorContext, OriginDocument
from rag.core.errors import (
    ConfigurationError,
    InvalidInputError,
    NotFoundError,
    ProviderError,
    ProviderTimeoutError,
)
from rag.core.options import option
from rag.core.plugins import register
from rag.plugins.connectors.links import check_link_base, link_to

SCHEME = "s3"
TRIES = 3
_LOST = {"NoSuchBucket", "NoSuchKey", "404"}


@register("connector")
class S3Connector:
    """All objects below a prefix of a bucket, by the rest of their keys.

    Raises InvalidInputError for another address and ConfigurationError without boto3 or keys.
    """

    name = "s3"
    label = gettext_noop("Object store (S3)")

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """Which prefix of which bucket; the keys are those of the installation."""

        address: str = option(help="Bucket and prefix, such as s3://bucket/prefix.")
        link_base: str = option(
            "", help="Web address under which people open the files; their paths are added to it."
        )
        tries: int = option(TRIES, help="How often a call is tried.", minimum=1, maximum=10)

    def __init__(self, options: Options) -> None:
        address = options.address
        parts = urlsplit(address, allow_fragments=False)
        self._bucket, prefix = parts.netloc, parts.path.strip("/")
        if parts.scheme != SCHEME or not self._bucket or parts.query or "@" in self._bucket:
            raise InvalidInputError(
                "“{address}” is no address of an object store.",
                hint="Write s3://bucket/prefix.",
                address=address,
            )
        check_link_base(options.link_base)
        self._options = options
        self.origin_name = f"{self._bucket}/{prefix}".rstrip("/")
        self._prefix = f"{prefix}/" if prefix else ""

    @cached_property
    def _client(self) -> Any:
        return _client(self._options.tries)

    def __str__(self) -> str:
        return f"{SCHEME}://{self.origin_name}"

    def list(self, context: ConnectorContext) -> Iterator[OriginDocument]:
        """Yield each object of all pages; folder marks, empty or with a slash, are left out."""
        pages = self._client.get_paginator("list_objects_v2")
        with self._told(""):
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix):
                # A web page with status 200 would be read as a list of nothing.
                if "IsTruncated" not in page:
                    raise ProviderError(
                        "“{where}” was answered with something that is no list.",
                        hint="Look at AWS_ENDPOINT_URL: is it an object store?",
                        where=self,
                    )
                for one in page.get("Contents", ()):
                    path = one["Key"].removeprefix(self._prefix)
                    mark, url = (
                        one.get("ETag", "").strip('"'),
                        link_to(self._options.link_base, path),
                    )
                    listed = OriginDocument(path, one["Size"], mark, url)
                    if path and not path.endswith("/") and not listed.is_hidden:
                        yield listed

    def since(self, context: ConnectorContext) -> None:
        """Return None: a bucket tells what is there, not what changed."""

    @contextmanager
    def fetch(self, document: OriginDocument, context: ConnectorContext) -> Iterator[IO[bytes]]:
        """Open one object as a stream."""
        path = document.path
        with self._told(path):
            got = self._client.get_object(Bucket=self._bucket, Key=self._prefix + path)
            with closing(got["Body"]) as body:
                yield io.BufferedReader(_Raw(body, self, path))

    def permissions(self, document: OriginDocument) -> None:
        """Return None: who may read a bucket is no matter of groups of people."""

    @contextmanager
    def _told(self, path: str) -> Iterator[None]:
        """Turn what the client raises in the block into errors for people."""
        # Heavy, and only for those who sync from an object store.
        from botocore import exceptions as boto

        where = f"{self}/{path}" if path else str(self)
        try:
            yield
        except boto.ClientError as error:
            raise _refused(where, error.response) from error
        except (boto.ReadTimeoutError, boto.ConnectTimeoutError) as error:
            raise ProviderTimeoutError(
                "“{where}” could not be read in time.", hint="Try again later.", where=where
            ) from error
        except (boto.BotoCoreError, boto.HTTPClientError) as error:
            raise ProviderError(
                "“{where}” could not be read: {reason}.",
                hint="Look at AWS_ENDPOINT_URL and the network, and try again.",
                where=where,
                reason=type(error).__name__,
            ) from error


class _Raw(io.RawIOBase):
    """A body whose failures, in the middle of it, are told like all others."""

    def __init__(self, body: Any, origin: S3Connector, path: str) -> None:
        self._body, self._origin, self._path = body, origin, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        with self._origin._told(self._path):
            piece = self._body.read(len(view))
        view[: len(piece)] = piece
        return len(piece)


def _refused(where: str, response: Any) -> ProviderError | NotFoundError:
    code = str(response.get("Error", {}).get("Code", ""))
    if code in _LOST:
        return NotFoundError(
            "There is no “{where}”.", hint="Check the bucket and the key.", where=where
        )
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", "")
    hint = "Try again later."
    if str(status) in ("400", "401", "403"):
        hint = "Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and their rights."
    return ProviderError(
        "“{where}” was refused with HTTP {status} ({code}).",
        hint=hint,
        where=where,
        status=status,
        code=code,
    )


def _client(tries: int) -> Any:
    values = conf()
    if not values.s3_access_key or not values.s3_secret_key:
        raise ConfigurationError(
            "There are no keys for the object store.",
            hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment.",
        )
    try:
        # Heavy, an extra, and only for those who sync from an object store.
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise ConfigurationError(
            "Object stores need the package boto3.", hint="Install it: see requirements-extras.txt."
        ) from error
    endpoint = values.s3_endpoint or None
    session = boto3.session.Session(
        aws_access_key_id=values.s3_access_key,
        aws_secret_access_key=values.s3_secret_key,
        aws_session_token=values.s3_session_token or None,
        region_name=values.s3_region,
    )
    style = {"addressing_style": "path" if endpoint else "auto"}
    return session.client(
        "s3",
        endpoint_url=endpoint,
        config=Config(
            connect_timeout=min(10.0, values.timeout_s),
            read_timeout=values.timeout_s,
            retries={"mode": "standard", "total_max_attempts": tries},
            s3=style,
            # Not all stores know the newer checksums.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
