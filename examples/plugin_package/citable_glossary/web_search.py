"""The source ``web_search``. In: a question. Out: what a SearXNG server finds on the web.

A data source with a ``description`` is a tool that models may call, in flows and for agents.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from rag.core.errors import InvalidInputError, ProviderError
from rag.core.hits import Hit
from rag.core.options import option
from rag.core.plugins import register
from rag.core.sources import FetchRequest, SourceQuery, SourceResult


@register("source")
class WebSearch:
    """Pages of the web, by a search server of one's own."""

    name = "web_search"
    label = "Web search"

    @dataclass(frozen=True)
    class Options:
        endpoint: str = option(help="The server's address, such as https://searx.example/search.")
        top_k: int = option(5, help="At most so many pages.", minimum=1, maximum=20)
        secret: str = option("", help="Name of the secret that it asks for.", is_secret=True)

    @staticmethod
    def hosts(options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the host that is told every question."""
        return (urlsplit(str(options.get("endpoint"))).netloc,)

    def __init__(self, options: Options) -> None:
        if urlsplit(options.endpoint).scheme not in ("http", "https"):
            raise InvalidInputError("“endpoint” is no web address.")
        self.options = options

    def retrieve(self, query: SourceQuery) -> SourceResult:
        """Return the pages in the server's order; raise ProviderError for another answer."""
        options, headers = self.options, {"Accept": "application/json"}
        if options.secret:
            secret = query.ports.secret(options.secret, url=options.endpoint)
            headers["Authorization"] = f"Bearer {secret}"
        params = {"q": query.text, "format": "json"}
        request = FetchRequest(
            options.endpoint, params=params, headers=headers, max_bytes=1_000_000
        )
        reply = query.ports.fetch(request, deadline=query.deadline)
        try:
            pages = json.loads(reply.body)["results"][: options.top_k]
            hits = tuple(self._hit(page, rank) for rank, page in enumerate(pages, 1))
        except (ValueError, KeyError, TypeError) as error:
            raise ProviderError("The search server gave no list of results.") from error
        return SourceResult(hits)

    def _hit(self, page: Mapping[str, Any], rank: int) -> Hit:
        title, url = str(page["title"]), str(page["url"])
        text = f"{title}\n{page.get('content') or ''}".strip()
        metadata = {"url": url, "title": title}
        return Hit(
            text=text,
            rank=rank,
            file_name=title,
            content_type="web",
            source=self.name,
            external_id=url,
            metadata=metadata,
        )
