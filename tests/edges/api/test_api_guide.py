"""The commands of the API guide are sent as they stand there, in their order."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from rag import models
from rag.services.access.api_keys import create_key
from tests.edges.admin_client import use_words_embedder
from tests.edges.api_client import KeyClient, error_of
from tests.factories import UserFactory, publish, upload

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "api.md"
DOCUMENTS = {
    "pump.md": b"# Pump\n\nThe pump is serviced once a year.",
    "tea.md": b"# Tea\n\nTea is poured.",
}


def commands() -> list[list[str]]:
    """Return the arguments of every curl of the guide."""
    blocks = re.findall(r"(?s)```sh\n(.*?)```", GUIDE.read_text(encoding="utf-8"))
    lines = "\n\n".join(blocks).replace("\\\n", " ").split("\n\n")
    return [shlex.split(line) for line in lines if line.strip().startswith("curl ")]


def numbered(path: str) -> str:
    """Return the path with the numbers that the rows have here, where others came before."""
    file = models.File.objects.order_by("pk").first()
    chunk = models.Chunk.objects.order_by("pk").first()
    path = re.sub(r"(files/|file=)1\b", rf"\g<1>{file.pk if file else 0}", path)
    return re.sub(r"(chunks/)1\b", rf"\g<1>{chunk.pk if chunk else 0}", path)


def send(client: KeyClient, words: list[str], key: str) -> tuple[str, str, Any]:
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
    path = numbered(address.removeprefix("$KB"))
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
    client = KeyClient(key)
    answers = []
    for words in commands():
        method, path, response = send(client, words, key)
        assert response.status_code < 300, (words, response.status_code, response.content)
        answers.append((method, path, response))
        if method == "POST" and path == "/api/files":
            # What the worker would do meanwhile.
            for file in models.File.objects.order_by("pk"):
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
    assert not models.Store.objects.exists()


@pytest.mark.django_db
def test_the_error_of_the_guide_is_what_one_gets() -> None:
    shown = json.loads(re.findall(r"```json\n(.*?)\n```", GUIDE.read_text(encoding="utf-8"))[0])
    _, key = create_key(user=UserFactory(), name="guide")
    response = KeyClient(key).get("/api/files?store=404")
    error = error_of(response, 404)
    assert set(error) == set(shown["error"])
    assert error["code"] == shown["error"]["code"]
