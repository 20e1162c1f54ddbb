"""Data source ``api``: an HTTP request from templates, the items of its JSON answer as hits.

Values go into the path percent-encoded, into parameters and the body as values: none can become
another parameter, another path or another host.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from django.utils.translation import gettext_noop

from rag.core.deadline import Deadline
from rag.core.errors import InvalidInputError
from rag.core.options import option
from rag.core.plugins import register
from rag.core.sources import FetchRequest, SourceQuery, SourceResult
from rag.plugins.sources.api_items import ItemReader
from rag.stages.prompting.templates import fill_placeholders
from rag.stages.prompting.web_request import fill_parameters, fill_path, fill_query

_ENDPOINT = re.compile(r"(https?://)([^/?#]*)([^?#]*)(\?[^#]*)?", re.IGNORECASE)
_NO_CONTENT = (204, 205)


@register("source")
class ApiSource:
    """An HTTP endpoint that answers with JSON; the house's guard decides where it may be."""

    name = "api"
    label = gettext_noop("HTTP API")

    @staticmethod
    def hosts(options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the endpoint's host."""
        found = _ENDPOINT.match(str(options.get("endpoint") or "").strip())
        return (found[2].rpartition("@")[2].lower(),) if found else ()

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        """Where the API is, how it is asked, and where its answer holds what."""

        endpoint: str = option(help="Web address; {name} may stand in its path and query.")
        method: Literal["GET", "POST"] = option(
            "GET", help="POST where the API searches by a body."
        )
        params: dict[str, Any] = option({}, help="Parameters; {name} in a text is a value.")
        headers: dict[str, Any] = option({}, help="Headers; {name} in a text is a value.")
        body: dict[str, Any] | None = option(
            None, help="JSON body; a text that is only {name} becomes the value with its type."
        )
        auth: Literal["none", "bearer", "basic", "header", "query"] = option(
            "none", help="How the secret is sent."
        )
        secret: str = option("", help="Name of the secret: token, key or password.", is_secret=True)
        auth_name: str = option("", help="Name of the header or parameter that carries the secret.")
        auth_user: str = option("", help="User name for basic.")
        items: str = option("", help="JMESPath to the list of items; empty: the answer itself.")
        fields: dict[str, Any] = option(
            {},
            help="JMESPath, within an item, for content, title, score, id, url, content_type and"
            " metadata; without content the whole item is the text.",
        )
        top_k: int = option(
            10, help="Maximum items to take, in the API's order.", minimum=1, maximum=200
        )
        timeout_s: float = option(10.0, help="Seconds for all tries.", minimum=0.1, maximum=300)
        max_bytes: int = option(
            5_000_000, help="Largest answer in bytes.", minimum=100, maximum=50_000_000
        )
        retries: int = option(
            2, help="Tries after the first, on 429, 5xx and lost connections.", minimum=0, maximum=5
        )

    def __init__(self, options: Options) -> None:
        found = _ENDPOINT.match(options.endpoint.strip())
        if not found or not found[2] or "{" in found[2]:
            raise InvalidInputError(
                "“endpoint” is no web address with a fixed host.",
                hint="Write it like {example}; placeholders may stand after the host only.",
                example="https://example.org/search/{topic}",
            )
        self._options = options
        self._origin, self._path, self._query = found[1] + found[2], found[3], found[4] or ""
        self._host = found[2].rpartition("@")[2]
        self._reader = ItemReader(options.items, options.fields, options.top_k)
        _check_auth(options)

    def retrieve(self, query: SourceQuery) -> SourceResult:
        """Return the items of the answer; raises what the guard, the templates and they raise."""
        query.deadline.check()
        deadline = Deadline(min(self._options.timeout_s, query.deadline.remaining_s))
        request = self._request(query)
        with query.deadline.on_cancel(deadline.cancel):
            reply = query.ports.fetch(request, deadline=deadline)
        query.deadline.check()
        if reply.status in _NO_CONTENT:
            return SourceResult()
        kind = reply.headers.get("content-type", "")
        return self._reader.read(reply.body, kind, host=self._host)

    def _request(self, query: SourceQuery) -> FetchRequest:
        options = self._options
        values = {**query.values, "user_query": query.values.get("user_query", query.text)}
        params = fill_parameters("params", options.params, values)
        headers = {
            "Accept": "application/json",
            **fill_parameters("headers", options.headers, values),
        }
        if options.auth != "none":
            secret = query.ports.secret(options.secret, url=self._origin).strip()
            if options.auth == "query":
                params[options.auth_name] = secret
            else:
                headers.update(_auth_header(options, secret))
        body = options.body
        return FetchRequest(
            url=self._origin + fill_path(self._path, values) + fill_query(self._query, values),
            method=options.method,
            params=params,
            headers=headers,
            json=None if body is None else fill_placeholders(body, values),
            max_bytes=options.max_bytes,
            retries=options.retries,
        )


def _check_auth(options: ApiSource.Options) -> None:
    if options.auth == "none":
        if options.secret:
            raise InvalidInputError(
                "A secret is named, but “auth” is none.", hint="Say in “auth” how it is sent."
            )
        return
    needed = {"secret": options.secret}
    if options.auth in ("header", "query"):
        needed["auth_name"] = options.auth_name
    if options.auth == "basic":
        needed["auth_user"] = options.auth_user
    for name, value in needed.items():
        if not value:
            raise InvalidInputError(
                "With “auth: {auth}” the option “{name}” is needed.", auth=options.auth, name=name
            )
    taken = options.params if options.auth == "query" else options.headers
    own = options.auth_name if options.auth in ("header", "query") else "Authorization"
    if own.lower() in {str(name).lower() for name in taken}:
        raise InvalidInputError(
            "“{name}” is set twice: by “auth” and by hand.", hint="Remove one.", name=own
        )


def _auth_header(options: ApiSource.Options, secret: str) -> dict[str, str]:
    if options.auth == "header":
        return {options.auth_name: secret}
    if options.auth == "bearer":
        return {"Authorization": f"Bearer {secret}"}
    pair = base64.b64encode(f"{options.auth_user}:{secret}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}
