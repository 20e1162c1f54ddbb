"""The guide "Connect your app": its commands and its programs, run as they stand there."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agents import models
from rag.services.access.api_keys import create_key
from tests.asgi_server import server_thread
from tests.integration.agent_world import CITED, OPEN, QUOTE, AgentWorld, world

__all__ = ["world"]
ROOT = Path(__file__).resolve().parents[3]
GUIDE = (ROOT / "docs" / "guides" / "connect-your-app.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"(?s)```{kind}\n(.*?)```", GUIDE)


def part(title: str, kind: str = "python") -> str:
    """Return the programs of a section, one after the other."""
    section = GUIDE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return "\n".join(re.findall(rf"(?s)```{kind}\n(.*?)```", section))


@pytest.fixture
def site(world: AgentWorld, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The guide's site: a store on pumps, the built-in agent, a key; its address."""
    world.use(CITED)
    models.Agent.objects.update_or_create(
        name="rag", defaults={"is_public": True, "config": dict(OPEN)}
    )
    with server_thread() as url:
        monkeypatch.setenv("KB", url)
        monkeypatch.setenv("KEY", create_key(user=world.user, name="guide", rights=["read"])[1])
        yield url


def test_the_commands(site: str, tmp_path: Path) -> None:
    # Each answer on a line of its own; the variables are those of the fixture.
    kept = (line for line in "\n".join(blocks("sh")).splitlines() if "export K" not in line)
    script = re.sub(r"(?m)^(?=curl |ANSWER=)", "echo; ", "\n".join(kept))
    done = subprocess.run(["bash", "-ec", script], cwd=tmp_path, capture_output=True, timeout=60)
    lines = [line for line in done.stdout.decode().splitlines() if line.strip()]
    assert done.returncode == 0 and len(lines) == 7, (done.stdout, done.stderr)
    found, asked, again, turns, judged, listed, completed = map(json.loads, lines)
    assert again["session"] == asked["session"] and len(turns) == 4
    assert (judged["feedback"], judged["feedback_comment"]) == (1, "Just so.")
    assert QUOTE in found["hits"][0]["content"]
    assert asked["answer"] == "Every 30 days.[1]" and asked["citations"][0]["verdict"] == "verified"
    assert "rag" in [one["id"] for one in listed["data"]]
    assert completed["choices"][0]["message"]["content"] == "Every 30 days.[1]"


def test_the_programs_for_openai(site: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(part("OpenAI's protocol"), "guide", "exec"), {})
    told = capsys.readouterr().out
    assert told.startswith(f"Every 30 days.[1]\n\n---\n[1] pump manual.txt, p. 1: “{QUOTE}”")
    assert f"pump manual.txt 1 verified {QUOTE}" in told
    assert "Every 30 days.[1]\n 15 tokens\n" in told and "words:" in told


def test_the_program_for_mcp(site: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile("import os\n" + part("MCP"), "guide", "exec"), {"__name__": "guide"})
    told = capsys.readouterr().out
    assert "'fetch_document'" in told and f"pump manual.txt {QUOTE}" in told
    assert told.rstrip().endswith(f"“{QUOTE}”")
    (config,) = map(json.loads, blocks("json"))
    server = config["mcpServers"]["citable"]
    assert server["url"].endswith("/mcp") and set(server["headers"]) == {"Authorization"}


def test_the_program_for_langchain(
    site: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "langchain_retriever"))
    readme = ROOT.joinpath("examples/langchain_retriever/README.md").read_text(encoding="utf-8")
    exec(compile("import os\n" + part("LangChain"), "guide", "exec"), {})
    assert f"pump manual.txt {QUOTE}" in capsys.readouterr().out
    (shown,) = re.findall(r"(?s)```python\n(.*?)```", readme)
    key = create_key(user=models.Agent.objects.get(name="desk").owner, name="readme")[1]
    exec(shown.replace("http://127.0.0.1:8000", site).replace("ck_…", key), {})
    assert f"pump manual.txt 1 {QUOTE}" in capsys.readouterr().out


def test_what_the_guide_says_of_refusals(site: str, world: AgentWorld) -> None:
    key = create_key(user=world.user, name="r", rights=["read"])[1]
    headers = {"authorization": f"Bearer {key}"}
    body = {"model": "rag", "messages": [{"role": "user", "content": "Hello"}]}

    def code_of(status: int, **change: Any) -> str:
        answer = httpx2.post(
            f"{site}/v1/chat/completions", json={**body, **change}, headers=headers, timeout=30
        )
        assert answer.status_code == status, answer.text
        return str(answer.json()["error"]["code"])

    assert code_of(400, tools=[{}]) == "unsupported_parameter"
    assert code_of(404, model="nobody") == "model_not_found"
    assert code_of(400, max_tokens=0) == "invalid_input"
    for word in ("unsupported_parameter", "X-Citable-Ignored", "model_not_found"):
        assert word in GUIDE
