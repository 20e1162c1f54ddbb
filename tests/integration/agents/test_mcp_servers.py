"""A real MCP server as tools of an agent and of a flow; one that hangs holds nobody."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from mcp.server.mcpserver import MCPServer

from agents.chat.agents import tools as react_tools
from agents.core.source_configs import McpServerConfig
from agents.models import Agent
from agents.runtime import mcp_client
from agents.runtime.mcp_client import call_mcp_tool, mcp_tools
from rag.core.deadline import Deadline
from rag.core.errors import ProviderError, ProviderTimeoutError
from tests.fakes.loopback import LoopbackServer, Reply
from tests.integration.agent_world import AgentWorld, world
from tests.integration.calling_model import Calling, call, calls
from tests.integration.flows.test_flow_cited import flow_of, run_of

__all__ = ["world"]


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    """The address of a server of the protocol's own SDK."""
    made = MCPServer("shop")

    @made.tool()
    def price(part: str) -> str:
        """Tell what a part costs."""
        if part != "filter":
            raise ValueError("no such part")
        return "45 yuan"

    config = uvicorn.Config(made.streamable_http_app(), port=0, log_level="error", lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    until = time.monotonic() + 10
    while not server.started and time.monotonic() < until:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/mcp"
    server.should_exit = True
    thread.join(5)


@pytest.fixture(autouse=True)
def _allowed(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.RAG = {**settings.RAG, "FETCH_HOSTS": ("127.0.0.1",)}
    monkeypatch.setattr(react_tools, "_learnt", {})
    mcp_client._KEPT.clear()


def server_of(address: str, **more: Any) -> McpServerConfig:
    given = {"mcp": address, "name": "shop", "tools": ["price"], **more}
    return McpServerConfig.model_validate(given)


def test_the_protocols_own_server_is_understood(shop: str) -> None:
    server = server_of(shop)
    (spec,) = mcp_tools(server=server, deadline=Deadline(10))
    assert spec.name == "shop__price" and spec.parameters["required"] == ["part"]
    ask = {"server": server, "name": spec.name, "deadline": Deadline(10)}
    assert call_mcp_tool(**ask, arguments={"part": "filter"})["text"] == "45 yuan"  # type: ignore[arg-type]
    with pytest.raises(ProviderError, match="shop__price failed: Error executing"):
        call_mcp_tool(**ask, arguments={"part": "x"})  # type: ignore[arg-type]


def test_an_agent_and_a_flow_call_it(world: AgentWorld, shop: str) -> None:
    world.agent.agent_type = Agent.Type.REACT
    given = {"mcp": shop, "tools": ["price"]}
    world.set(enable_fast_path=False, tools=[], mcp_servers={"shop": given})
    chat = world.use(Calling(calls(call("shop__price", part="filter")), "It costs 45 yuan."))
    told = world.ask("What does the filter cost?")
    assert [spec.name for spec in chat.requests[0].tools] == ["shop__price"]
    (result,) = told.of("tool_result")
    assert not result["is_error"] and "45 yuan" in result["text"]
    world.use(Calling(calls(call("shop__price", part="filter")), "It costs 45 yuan [1]."))
    tool = {**given, "name": "shop"}
    flow = flow_of(world, {"answer": {"prompt": "p.md", "tools": [tool]}}, {"p.md": "Answer."})
    run = run_of(world, flow, "What does the filter cost?")
    assert run.status == "done", run.error
    assert run.answer == "It costs 45 yuan [1]." and "45 yuan" in run.passages[0]["content"]


def test_an_agent_goes_on_without_a_server_that_is_away(world: AgentWorld) -> None:
    world.agent.agent_type = Agent.Type.REACT
    away = {"mcp": "http://127.0.0.1:9/mcp", "tools": ["price"]}
    world.set(enable_fast_path=False, tools=[], mcp_servers={"shop": away})
    world.use(Calling("I cannot say."))
    told = world.ask("What does the filter cost?")
    assert any(one.get("step") == "tools" for one in told.of("notice"))


def test_a_server_that_hangs_is_left_in_its_time() -> None:
    with LoopbackServer() as server:
        server.route("POST", "/mcp", lambda _: Reply(events=[b"data: ", 30.0]))
        started = time.monotonic()
        with pytest.raises(ProviderTimeoutError):
            mcp_tools(server=server_of(f"{server.origin}/mcp", timeout=0.3), deadline=Deadline(5))
        assert time.monotonic() - started < 3
