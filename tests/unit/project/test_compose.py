"""The files for several processes: they parse, agree with each other and name only what is known."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
OURS = ("migrate", "web", "worker")
# Names that only compose.yaml reads; the guide explains them.
OF_COMPOSE = {
    "CITABLE_LISTEN",
    "CITABLE_VERSION",
    "POSTGRES_MAX_CONNECTIONS",
    "POSTGRES_PASSWORD",
    "POSTGRES_SHARED_BUFFERS",
}
ASKED = re.compile(r"\$\{(\w+)(?::[-?]([^}]*))?\}")
TEXT = (ROOT / "compose.yaml").read_text(encoding="utf-8")
NGINX = (ROOT / "docs/deploy/nginx.conf").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs/guides/scale-out.md").read_text(encoding="utf-8")


@pytest.fixture
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(TEXT)
    return loaded


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def test_every_service_is_made_of_known_things(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert set(services) == {"db", "migrate", "web", "worker", "proxy", "redis"}
    for name, service in services.items():
        assert service["image"], name
        for mount in service.get("volumes", []):
            source = mount.partition(":")[0]
            known = (ROOT / source).exists() if source.startswith(".") else None
            assert known or source in compose["volumes"], (name, source)
        for other, how in service.get("depends_on", {}).items():
            condition = how["condition"]
            if condition == "service_healthy":
                assert "healthcheck" in services[other]
            else:
                assert (condition, other) == ("service_completed_successfully", "migrate")


def test_web_and_worker_share_everything_and_wait_for_the_migration(
    compose: dict[str, Any],
) -> None:
    services = compose["services"]
    shared = ("image", "build", "environment", "env_file", "volumes")
    for name in OURS:
        assert {key: services[name][key] for key in shared} == {
            key: services["web"][key] for key in shared
        }
    assert services["migrate"]["restart"] == "no"
    assert all("migrate" in services[name]["depends_on"] for name in ("web", "worker"))
    environment = services["web"]["environment"]
    assert environment["MEDIA_ROOT"].startswith(environment["CITABLE_VAR"])
    assert services["web"]["volumes"] == [f"var:{environment['CITABLE_VAR']}"]
    # Whoever stops gets longer than the work that it lets end.
    (grace,) = [
        word for word in services["web"]["command"] if word.startswith("--timeout-graceful-")
    ]
    assert seconds(services["web"]["stop_grace_period"]) > int(grace.partition("=")[2])
    assert seconds(services["worker"]["stop_grace_period"]) > 20 + 10


def test_only_the_proxy_is_published_and_no_name_is_fixed_that_would_forbid_scaling(
    compose: dict[str, Any],
) -> None:
    services = compose["services"]
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    assert not any("container_name" in service for service in services.values())
    assert services["redis"]["profiles"] == ["redis"]
    assert not any("redis" in service.get("depends_on", {}) for service in services.values())


def test_no_secret_has_a_default_and_every_name_is_documented() -> None:
    asked = dict(ASKED.findall(TEXT))
    assert asked.keys() >= OF_COMPOSE
    assert all(
        f":?{asked['POSTGRES_PASSWORD']}" in line
        for line in TEXT.splitlines()
        if "${POSTGRES_PASSWORD" in line
    )
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in asked.keys() - OF_COMPOSE:
        assert f"`{name}`" in readme, name
    for name in OF_COMPOSE:
        assert f"`{name}`" in GUIDE, name


def test_the_database_is_one_that_the_program_accepts_and_has_room(compose: dict[str, Any]) -> None:
    db = compose["services"]["db"]
    version = re.fullmatch(r"pgvector/pgvector:pg(\d+)", db["image"])
    assert version and int(version[1]) >= 15
    user = db["environment"]["POSTGRES_USER"]
    url = compose["services"]["web"]["environment"]["DATABASE_URL"]
    assert url.startswith(f"postgres://{user}:") and url.endswith(
        f"@db:5432/{db['environment']['POSTGRES_DB']}"
    )


def test_the_proxy_holds_no_stream_back_and_outlasts_the_slowest_upload(
    compose: dict[str, Any],
) -> None:
    told = dict(re.findall(r"^\s+(proxy_\w+|client_\w+|resolver) ([^;]+);", NGINX, re.MULTILINE))
    assert (told["proxy_buffering"], told["proxy_request_buffering"]) == ("off", "off")
    assert seconds(told["proxy_read_timeout"]) > 600
    assert NGINX.count("{") == NGINX.count("}")
    # By a variable the name is looked up while it runs; otherwise only once.
    assert "set $web http://web:8000;" in NGINX and told["proxy_pass"] == "$web"
    assert told["resolver"].startswith("127.0.0.11")
    assert "non_idempotent" not in told["proxy_next_upstream"]
    assert "--port=8000" in compose["services"]["web"]["command"]
    assert compose["services"]["proxy"]["ports"][0].endswith(":8080") and "listen 8080;" in NGINX


def test_the_image_runs_as_nobody_special_and_carries_no_secrets_or_data() -> None:
    lines = [line.split() for line in DOCKERFILE.splitlines() if line and line[0].isupper()]
    words = [line[0] for line in lines]
    assert re.fullmatch(r"python:3\.11\.\d+-slim-\w+", next(w[1] for w in lines if w[0] == "FROM"))
    assert "HEALTHCHECK" in words
    user = next(line[1] for line in lines if line[0] == "USER")
    assert user != "root" and words.index("USER") < words.index("CMD")
    # What changes rarely comes first, so that it is built rarely.
    assert next(line for line in lines if line[0] == "COPY") == ["COPY", "requirements.txt", "./"]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert {".env", "var", ".git", ".venv"} <= set(ignored)
    for needed in ("manage.py", "project", "rag", "agents", "templates", "locale"):
        assert (ROOT / needed).exists() and needed not in ignored
