"""The wheel in a project of Django's startproject, set up as docs/guides/in-another-django-project.md says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command

from tests.forked_processes import BASE_DIR, run_python

GUIDE = BASE_DIR / "docs/guides/in-another-django-project.md"
WALK = Path(__file__).parent / "walk.py"
# It builds a wheel, and makes a database from the first migration on.
pytestmark = pytest.mark.slow
NAME = f"website_{os.getpid()}"
PEOPLE = """
from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.db import models


class People(BaseUserManager):
    def create_superuser(self, email, password):
        person = self.model(email=email, is_staff=True, is_superuser=True)
        person.set_password(password)
        person.save()
        return person


class Person(AbstractBaseUser, PermissionsMixin):
    email = models.EmailField(unique=True)
    is_active = models.BooleanField(default=True)
    is_staff = models.BooleanField(default=False)
    USERNAME_FIELD = "email"
    objects = People()
"""
OWN = """
import os

ALLOWED_HOSTS = ["testserver"]
AUTH_USER_MODEL = "people.Person"
INSTALLED_APPS = [*os.environ.get("BEFORE", "").split(), *INSTALLED_APPS, "people"]
if "OWN_SITE" in os.environ:
    INSTALLED_APPS[INSTALLED_APPS.index("django.contrib.admin")] = "website.desk.DeskConfig"
"""
DESK = """
from django.contrib.admin import AdminSite
from django.contrib.admin.apps import AdminConfig


class Desk(AdminSite):
    site_header = "Our desk"


class DeskConfig(AdminConfig):
    default_site = "website.desk.Desk"
"""


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.M | re.S)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of packages that holds what the wheel does, and only that of ours."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=BASE_DIR, check=True, capture_output=True)
    (built,) = folder.glob("citable-*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder / "packages")
    return folder / "packages"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("host")
    call_command("startproject", "website", str(folder))
    (folder / "people/migrations").mkdir(parents=True)
    for name, text in {
        "people/__init__.py": "",
        "people/migrations/__init__.py": "",
        "people/models.py": PEOPLE,
        "website/desk.py": DESK,
        "website/urls.py": blocks()[1],
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    given = (folder / "website/settings.py").read_text(encoding="utf-8") + OWN
    guide = blocks()[0].replace('"NAME": "website"', f'"NAME": "{NAME}"')
    variants = {"settings": guide, "without_agents": guide.replace(', "agents"', "")}
    for name, text in variants.items():
        (folder / f"website/{name}.py").write_text(given + text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def database(django_db_setup: None) -> Iterator[dict[str, str]]:
    """Return how libpq finds an empty database of the project's own."""
    server = settings.DATABASES["default"]
    where = {"host": server["HOST"], "port": str(server["PORT"]), "user": server["USER"]}
    with psycopg.connect(**where, dbname="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {NAME}")
        yield {"PGHOST": where["host"], "PGPORT": where["port"], "PGUSER": where["user"]}
        connection.execute(f"DROP DATABASE {NAME} WITH (FORCE)")


def run(word: str, wheel: Path, project: Path, **env: str) -> Any:
    own = {"DJANGO_SETTINGS_MODULE": "website.settings", "PATH": os.defpath}
    paths = os.pathsep.join([str(project), str(wheel)])
    done = run_python(str(WALK), word, env={**own, **env, "PYTHONPATH": paths}, cwd=project)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.django_db
def test_four_steps_bring_search_and_answers_into_another_project(
    wheel: Path, project: Path, database: dict[str, str]
) -> None:
    told = run("walk", wheel, project, **database)
    assert (told["owner"], told["upload"]) == ("anna@example.org", 201)
    assert "Close the main valve" in json.dumps(told["retrieve"])
    (citation,) = told["ask"]["citations"]
    assert citation["verdict"] == "verified"
    assert told["audit"] == [["insert", "anna@example.org", "api"]]
    assert (told["nobody"], told["door"]) == ("unauthenticated", "/chat/login?next=/chat")
    assert set(told["pages"].values()) == {200}, told["pages"]


@pytest.mark.parametrize(
    ("variant", "has_chat"),
    [
        ({"BEFORE": "unfold"}, True),
        ({"DJANGO_SETTINGS_MODULE": "website.without_agents", "OWN_SITE": "1"}, False),
    ],
    ids=["unfold", "own site, no agents"],
)
def test_unfold_an_own_admin_site_and_agents_may_be_there_or_not(
    wheel: Path, project: Path, variant: dict[str, str], has_chat: bool
) -> None:
    addresses = run("look", wheel, project, **variant)
    assert "/api/stores" in addresses
    assert ("/chat" in addresses, "/v1/models" in addresses) == (has_chat, has_chat)
