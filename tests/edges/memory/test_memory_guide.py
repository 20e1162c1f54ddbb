"""The guide on memory and pages: its requests are sent as they stand there."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agents import models
from rag.services.access.api_keys import create_key
from tests.asgi_server import server_thread
from tests.factories import UserFactory
from tests.integration.agent_world import AgentWorld, world

__all__ = ["world"]
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "memory-and-pages.md"
BLOCKS = re.findall(r"(?s)```http\n(.*?)```", GUIDE.read_text(encoding="utf-8"))
PATIENCE_S = 10.0


def sent(block: str, url: str, secret: str) -> str:
    """Send a block; return the answer's JSON, which has what the block says."""
    first, *rest = block.strip().splitlines()
    method, address = first.split()
    wanted = [line.removeprefix("→ ") for line in rest if line.startswith("→ ")]
    bodies: list[Any] = [json.loads(line) for line in rest if line.startswith("{")]
    headers = {"authorization": f"Bearer {secret}"}
    until = time.monotonic() + PATIENCE_S
    while True:
        response = httpx2.request(
            method,
            f"{url}{address}",
            json=bodies[0] if bodies else None,
            headers=headers,
            timeout=30,
        )
        assert response.status_code in (200, 201, 204), (block, response.text)
        told = json.dumps(response.json(), ensure_ascii=False) if response.content else ""
        if all(one in told for one in wanted):
            return told
        # What is remembered is written when the answer has been given.
        assert method == "GET" and time.monotonic() < until, (block, told)
        time.sleep(0.05)


def test_its_requests_do_what_they_say(world: AgentWorld) -> None:
    user = UserFactory(is_superuser=True)
    _, secret = create_key(user=user, name="guide", rights=["read", "write"])
    assert len(BLOCKS) == 7
    with server_thread() as url:
        for block in BLOCKS:
            sent(block, url, secret)
    assert models.Memory.objects.count() == 0


@pytest.mark.parametrize("name", ["AGENT_KEEP_MEMORIES_DAYS", "AGENT_KEEP_SESSIONS_DAYS"])
def test_its_settings_are_in_the_readme(name: str) -> None:
    readme = (GUIDE.parents[2] / "README.md").read_text(encoding="utf-8")
    assert name in readme and name in GUIDE.read_text(encoding="utf-8")
