"""The commands of the API guide are sent as they stand there, in their order."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from string import Template
from typing import Any

import pytest

from rag import models
from rag.services.access.api_keys import create_key
from tests.edges.admin_client import use_words_embedder
from tests.edges.api_client import KeyClient, error_of
from tests.factories import FileFactory, UserFactory, publish, upload

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "api.md"
DOCUMENTS = {
    "pump.md": b"# Pump\n\nThe pump is serviced once a year.",
    "tea.md": b"# Tea\n\nTea is poured.",
}


def commands() -> list[tuple[str, list[str], str]]:
    """Return of every curl of the guide: a variable that it sets, its arguments, the picking code."""
    blocks = re.findall(r"(?s)```sh\n(.*?)```", GUIDE.read_text(encoding="utf-8"))
    lines = "\n\n".join(blocks).replace("\\\n", " ").replace("|\n", "|").split("\n\n")
    found = []
    for line in lines:
        if set_by := re.fullmatch(r"(\w+)=\$\((curl .*)\| *python3 -c '(.*)'\)", line.strip()):
            found.append((set_by[1], shlex.split(set_by[2]), set_by[3]))
        elif line.strip().startswith("curl "):
            found.append(("", shlex.split(line), ""))
    return found


def picked(code: str, response: Any) -> str:
    """Return what the guide's own code prints of an answer."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], input=response.content, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def send(
    client: KeyClient, words: list[str], key: str, values: dict[str, str]
) -> tuple[str, str, Any]:
    """Send what curl would; return method, path and response."""
    method, address, body, form = "", "", None, {"files": []}
    headers: dict[str, str] = {}
    rest = iter(words[1:])
    for word in rest:
        if word == "-X":
            method = next(rest)
        elif word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name] = value.replace("$KEY", key)
        elif word == "--json":
            body = json.loads(next(rest))
        elif word == "-F":
            name, _, value = next(rest).partition("=")
            if value.startswith("@"):
                form["files"].append(upload(value[1:], DOCUMENTS[value[1:]]))
            else:
                form[name] = value  # type: ignore[assignment]
        elif word == "-o":
            next(rest)
        elif word != "-s":
            address = word
    assert address.startswith("$KB/api/"), words
    assert headers == {"Authorization": f"Bearer {key}"}
    path = Template(address.removeprefix("$KB")).substitute(values)
    if form["files"]:
        return "POST", path, client.post(path, form)
    method = method or ("GET" if body is None else "POST")
    return method, path, client.send(method.lower(), path, body)


@pytest.mark.django_db
def test_every_command_of_the_guide_works(
    monkeypatch: pytest.MonkeyPatch, settings: Any, fresh_wiring: None
) -> None:
    use_words_embedder(monkeypatch, settings)
    _, key = create_key(user=UserFactory(is_superuser=True), name="guide", rights=["read", "write"])
    client, values = KeyClient(key), dict[str, str]()
    # As after ``make demo``: what was there before stays as it is.
    before = FileFactory()
    publish(before, "The demo says this.")
    was = models.File.objects.values().get()
    answers = []
    for name, words, code in commands():
        method, path, response = send(client, words, key, values)
        assert response.status_code < 300, (words, response.status_code, response.content)
        if name:
            values[name] = picked(code, response)
        answers.append((method, path, response))
        if method == "POST" and path == "/api/files":
            # What the worker would do meanwhile.
            for file in models.File.objects.exclude(pk=before.pk).order_by("pk"):
                publish(file, DOCUMENTS[file.name].decode())
                models.File.objects.filter(pk=file.pk).update(status="completed")
    paths = {path.partition("?")[0] for _, path, _ in answers}
    assert len(answers) == 15
    assert {"/api/rag/retrieve", "/api/rag/ask", "/api/stores/manuals"} <= paths
    assert any(path.endswith("/original") for path in paths)
    by_path = {path: response for method, path, response in answers if method == "POST"}
    found = by_path["/api/rag/retrieve"].json()
    assert "serviced once a year" in found["hits"][0]["content"]
    assert "Plan the service of next year." in found["enhanced_prompt"]
    assert by_path["/api/rag/ask"].json()["citations"][0]["verdict"] == "verified"
    assert models.File.objects.values().get() == was
    assert list(models.Store.objects.all()) == [before.store]


@pytest.mark.django_db
def test_the_error_of_the_guide_is_what_one_gets() -> None:
    shown = json.loads(re.findall(r"```json\n(.*?)\n```", GUIDE.read_text(encoding="utf-8"))[0])
    _, key = create_key(user=UserFactory(), name="guide")
    response = KeyClient(key).get("/api/files?store=404")
    error = error_of(response, 404)
    assert set(error) == set(shown["error"])
    assert error["code"] == shown["error"]["code"]
