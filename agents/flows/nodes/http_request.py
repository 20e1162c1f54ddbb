"""HTTP request node: calls an address of a fixed host, guarded, and keeps what it answers.

No code of a flow is executed, here or elsewhere: what must be worked out is a tool or node plugin.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, Self

from django.utils.translation import gettext_noop
from pydantic import Field, model_validator

from agents.core.nodes import HttpCall, NodeRun, register_node
from agents.flows.definition.node_configs import NodeOptions, VariableName
from agents.flows.definition.state import source_values
from rag.core.sources import FetchRequest
from rag.stages.prompting.templates import fill_placeholders
from rag.stages.prompting.web_request import fill_parameters, fill_path, fill_query

_URL = re.compile(r"(https?://(?:[\w.-]+|\[[0-9a-fA-F:]+\])(?::\d+)?)(/[^#?]*|)(\?[^#]*)?")
_NAME = re.compile(r"\{([^\W\d]\w*)\}")
_SAFE = ("GET", "HEAD", "PUT", "DELETE")


class HttpRequestConfig(NodeOptions):
    """``url`` has a fixed host; ``{name}`` may stand behind it, in ``params``, ``headers`` and
    ``body`` (JSON). ``secret`` names one of the installation, sent as ``Authorization: Bearer`` or
    in ``secret_header``. A status of 300 and more fails the node unless ``statuses`` has it."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    url: str = Field(max_length=2000)
    params: dict[str, Any] = Field(default={}, max_length=100)
    headers: dict[str, str] = Field(default={}, max_length=50)
    body: Any = None
    secret: str = ""
    secret_header: str = Field(default="", pattern=r"^[A-Za-z0-9-]{0,64}$")
    statuses: list[int] = Field(default=[], max_length=50)
    timeout: float = Field(default=30, gt=0, le=300)
    retries: int = Field(default=0, ge=0, le=5)
    max_bytes: int = Field(default=200_000, ge=1, le=2_000_000)
    result_key: VariableName = "response"

    @model_validator(mode="after")
    def _fixed_host(self) -> Self:
        if not _URL.fullmatch(self.url):
            raise ValueError(
                "url is no web address with a fixed host, such as https://example.org/orders/{order}"
            )
        if self.retries and self.method not in _SAFE:
            raise ValueError(f"a {self.method} that failed may have been done: it has no retries")
        return self

    def sets(self) -> frozenset[str]:
        """Return the variable of the response."""
        return frozenset({self.result_key})

    def texts(self) -> Mapping[str, Any]:
        """Return what is filled."""
        return {name: getattr(self, name) for name in ("url", "params", "headers", "body")}

    def hosts(self) -> frozenset[str]:
        """Return the host."""
        return frozenset({self.url.partition("://")[2].partition("/")[0].partition("?")[0]})


@register_node
class HttpRequestNode:
    """Calls a web address."""

    name = "http_request"
    label = gettext_noop("HTTP request")
    Config = HttpRequestConfig

    async def run(
        self, state: Mapping[str, Any], config: HttpRequestConfig, run: NodeRun
    ) -> dict[str, Any]:
        """Return status, content type and body under ``result_key``; raise ProviderError."""
        values = {**dict.fromkeys(_named(config)), **source_values(state)}
        headers = fill_parameters("headers", config.headers, values)
        request = FetchRequest(
            url=_address(config.url, values),
            method=config.method,
            params=fill_parameters("params", config.params, values),
            headers={"Accept": "application/json", **headers},
            json=None if config.body is None else fill_placeholders(config.body, values),
            max_bytes=config.max_bytes,
            retries=config.retries,
            statuses=config.statuses,
        )
        call = HttpCall(request, config.timeout, config.secret, config.secret_header)
        return {"edges_var": {config.result_key: await run.fetch(call)}}


def _named(config: HttpRequestConfig) -> list[str]:
    return _NAME.findall(str(dict(config.texts())))


def _address(url: str, values: Mapping[str, Any]) -> str:
    found = _URL.fullmatch(url)
    assert found is not None
    # In an address what is not set is an empty text; a path refuses that.
    known = {name: "" if one is None else one for name, one in values.items()}
    return found[1] + fill_path(found[2], known) + fill_query(found[3] or "", known)
