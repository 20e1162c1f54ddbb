"""Run in the other project: make its tables, upload, search, ask, and look at the admin. Out: JSON."""

from __future__ import annotations

import json
import sys
from contextlib import suppress

import django

# The process was forked from one that has our checkout; here it is the wheel.
for name in [one for one in sys.modules if one.split(".")[0] in ("rag", "agents", "project")]:
    del sys.modules[name]
django.setup()

from django.contrib.auth import get_user_model  # noqa: E402
from django.core.files.uploadedfile import SimpleUploadedFile  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import Resolver404, resolve  # noqa: E402

TEXT = b"# Valves\n\nClose the main valve before you open the pump."
PAGES = (
    "/admin/",
    "/admin/rag/store/",
    "/admin/rag/store/{store}/change/",
    "/admin/rag/store/{store}/search/?q=valve",
    "/admin/rag/store/add/",
    "/admin/rag/file/",
    "/admin/rag/apikey/add/",
    "/admin/agents/agent/add/",
    "/chat",
    "/api/docs",
    "/api/openapi.json",
)


def look() -> None:
    """Check the settings and tell which of some addresses there are."""
    call_command("check", fail_level="WARNING")
    known = []
    for path in ("/api/stores", "/chat", "/v1/models"):
        with suppress(Resolver404):
            resolve(path)
            known.append(path)
    print(json.dumps(known))


def walk() -> None:
    """Do what a reader does, from the migration on."""
    from procrastinate.contrib.django import app

    call_command("makemigrations", "people", verbosity=0)
    call_command("migrate", verbosity=0)
    call_command("check", fail_level="WARNING", databases=["default"])
    from rag import models
    from rag.services.access import create_key

    told: dict[str, object] = {}
    user = get_user_model().objects.create_superuser("anna@example.org", "a long password")
    _, key = create_key(user=user, name="walk", rights=["read", "write"])
    caller = Client(headers={"Authorization": f"Bearer {key}"})
    store = caller.post("/api/stores", {"name": "Docs"}, content_type="application/json").json()
    upload = {"store": "docs", "files": SimpleUploadedFile("valves.md", TEXT)}
    told["owner"], told["upload"] = store["owner"], caller.post("/api/files", upload).status_code
    with app.replace_connector(app.connector.get_worker_connector()) as queue:
        queue.run_worker(wait=False, install_signal_handlers=False, listen_notify=False)
    body = {"query": "What is closed before the pump is opened?", "stores": ["docs"]}
    for action in ("retrieve", "ask"):
        answer = caller.post(f"/api/rag/{action}", body, content_type="application/json")
        told[action] = answer.json()
    told["audit"] = list(
        models.AuditEntry.objects.filter(kind="store").values_list("action", "username", "edge")
    )
    told["nobody"] = Client().get("/api/stores").json()["error"]["code"]
    visitor = Client()
    told["door"] = visitor.get("/chat").headers["Location"]
    visitor.login(email="anna@example.org", password="a long password")
    told["pages"] = {
        path: visitor.get(path.format(store=store["id"])).status_code for path in PAGES
    }
    print(json.dumps(told))


{"look": look, "walk": walk}[sys.argv[1]]()
