"""Schemathesis against the product's server: every operation of the document, with real ids."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agents import models
from rag.services.access.api_keys import create_key
from tests.asgi_server import server_thread
from tests.factories import FileFactory, GroupFactory, publish
from tests.integration.agent_world import CITED, AgentWorld, world

__all__ = ["world"]
# Streams that last as long as their answers; readiness without a worker; a Gemini that has no key.
_APART = r"(stream|events|chat/\{key\}|^/readyz|^/mcp|^/api/rag/store)"
ROOT = Path(__file__).resolve().parents[2]


def ids_of(world: AgentWorld) -> dict[str, object]:
    """Return by path, and for bodies, which rows are there."""
    GroupFactory(name="staff")
    file = FileFactory(store=world.store, name="fuzz.txt")
    (chunk,) = publish(file, "A passage to be fuzzed.")
    told = world.ask("How often is the pump serviced?")
    message = told.row
    session = message.session
    return {
        "/api/stores": {"id": world.store.slug},
        "/api/files": {"id": file.pk},
        "/api/chunks": {"id": chunk.pk},
        "/api/agents": {"id": "desk", "name": "desk", "key": str(message.key)},
        "/api/messages": {"id": str(message.key), "key": str(message.key), "number": 1},
        "/api/quotes": {"key": str(message.key), "number": 1},
        "/api/sessions": {"id": str(session.key)},
        "/v1/models": {"name": "desk"},
        "/v1/": {"body": {"model": "desk", "previous_response_id": None}},
        "/api/reindex": {"body": {"what": "lexical", "model": "", "files": None, "filter": ""}},
        "query": {"since": "2026-01-01", "until": "2026-12-31"},
        "body": {
            "store": "manuals",
            "stores": ["manuals"],
            "file": file.pk,
            "after": chunk.pk,
            "targets": [{"file": file.pk}],
            "reader_groups": ["staff"],
            "editor_groups": ["staff"],
            "restricted_to": ["staff"],
            "rerank": "none",
            "enhancement": "standard",
            "encoding": "utf-8",
            "message": "How often is the pump serviced?",
            "fileSearchStoreName": world.store.resource_name,
        },
    }


def test_no_operation_fails_or_answers_what_it_does_not_say(
    world: AgentWorld, tmp_path: Path
) -> None:
    world.use(CITED)
    world.user.is_superuser = True
    world.user.save()
    _, secret = create_key(
        user=world.user, name="fuzz", rights=["read", "write"], requests_per_minute=100_000
    )
    environment = {
        **os.environ,
        "FUZZ_IDS": json.dumps(ids_of(world)),
        "SCHEMATHESIS_HOOKS": "tests.fuzz.real_ids",
        "PYTHONPATH": str(ROOT),
    }
    with server_thread(lifespan="on") as url:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "schemathesis.cli",
                f"--config-file={Path(__file__).with_name('schemathesis.toml')}",
                "run",
                f"{url}/api/openapi.json",
                "--url",
                url,
                "--header",
                f"Authorization: Bearer {secret}",
                "--max-examples",
                os.environ.get("FUZZ_EXAMPLES", "40"),
                "--seed",
                "1",
                "--request-timeout",
                "30",
                "--continue-on-failure",
                f"--exclude-path-regex={_APART}",
                *os.environ.get("FUZZ_ARGS", "").split(),
            ],
            cwd=tmp_path,
            env=environment,
            check=False,
        )
    assert models.Agent.objects.exists()
    if done.returncode:
        pytest.fail("schemathesis found failures; they stand above")
