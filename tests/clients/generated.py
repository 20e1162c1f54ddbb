"""A client generated from the published document works for upload, search and ask."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from django.test import Client

from rag.services.access.api_keys import create_key
from tests.asgi_server import server_thread
from tests.integration.agent_world import CITED, AgentWorld, world

__all__ = ["world"]
PROGRAM = Path(__file__).with_name("generated_program.py")


def test_the_generated_client_uploads_searches_and_asks(world: AgentWorld, tmp_path: Path) -> None:
    world.use(CITED)
    world.user.is_superuser = True
    world.user.save()
    _, secret = create_key(user=world.user, name="generated", rights=["read", "write"])
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(Client().get("/api/openapi.json").json()), encoding="utf-8")
    tools = Path(os.environ["CLIENTS_VENV"]) / "bin"
    environment = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(tmp_path),
        "HOME": str(tmp_path),
    }

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    made = tmp_path / "citable_client"
    generate = (str(tools / "openapi-python-client"), "generate", "--meta", "none")
    run(*generate, "--path", str(document), "--output-path", str(made))
    with server_thread(lifespan="on") as url:
        print(run(str(tools / "python"), str(PROGRAM), url, secret))
