"""An MCP client of the official SDK with a key, against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from rag.services.access.api_keys import create_key
from tests.asgi_server import server_thread
from tests.integration.agent_world import AgentWorld, world

__all__ = ["desk", "world"]
POST = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@dataclass
class Desk:
    """A server, a key of the world's user."""

    world: AgentWorld
    url: str
    secret: str

    @asynccontextmanager
    async def client(self, secret: str = "", **more: Any) -> AsyncIterator[Client]:
        headers = {"authorization": f"Bearer {secret or self.secret}", **more.pop("headers", {})}
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            transport = streamable_http_client(f"{self.url}/mcp", http_client=http)
            async with Client(transport, **more) as client:
                yield client

    def with_client(
        self, work: Callable[[Client], Awaitable[Any]], secret: str = "", **more: Any
    ) -> Any:
        """Return what ``work`` returns with a client that is connected."""

        async def run() -> Any:
            async with self.client(secret, **more) as client:
                return await work(client)

        return asyncio.run(run())

    def call(self, name: str, secret: str = "", **arguments: Any) -> Any:
        """Return a tool's answer; it must be no error."""

        async def work(client: Client) -> Any:
            return await client.call_tool(name, arguments)

        result = self.with_client(work, secret)
        assert not result.is_error, result.content
        return result.structured_content

    def refusal(self, name: str, secret: str = "", **arguments: Any) -> str:
        """Return the text of a tool's error."""

        async def work(client: Client) -> Any:
            return await client.call_tool(name, arguments)

        result = self.with_client(work, secret)
        assert result.is_error and result.structured_content is None
        text: str = result.content[0].text
        return text

    def post(self, body: Any, **headers: str) -> httpx2.Response:
        given = {**POST, "authorization": f"Bearer {self.secret}", **headers}
        return httpx2.post(f"{self.url}/mcp", json=body, headers=given, timeout=30)


@pytest.fixture
def desk(world: AgentWorld) -> Iterator[Desk]:
    _, secret = create_key(user=world.user, name="k", rights=["read"], requests_per_minute=6000)
    with server_thread(lifespan="on") as url:
        yield Desk(world, url, secret)
