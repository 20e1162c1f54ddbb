"""What another project is given, and told when it lacks something; what the wheel asks to be installed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from packaging.requirements import Requirement

from rag.conf import OUR_PLUGINS, TELEMETRY, conf, install_settings
from rag.core.errors import ConfigurationError
from rag.management.host_checks import check_host

ROOT = Path(__file__).resolve().parents[3]


def host(**given: Any) -> dict[str, Any]:
    return {
        "BASE_DIR": Path("/srv/website"),
        "INSTALLED_APPS": ["django.contrib.admin", "rag"],
        "MIDDLEWARE": ["theirs"],
        **given,
    }


def test_a_project_is_given_what_it_lacks() -> None:
    named = host()
    install_settings(named)
    apps_now = named["INSTALLED_APPS"]
    assert apps_now[0] == "django.contrib.admin" and apps_now[-1] == "rag"
    assert "procrastinate.contrib.django" in apps_now
    assert named["MIDDLEWARE"] == [TELEMETRY, "theirs"]
    assert named["MEDIA_ROOT"] == Path("/srv/website/var/media")
    assert named["PROCRASTINATE_WORKER_DEFAULTS"]["stalled_worker_timeout"] == 30.0
    assert named["RAG"] == {"PLUGINS": OUR_PLUGINS}
    assert named["LOGIN_URL"] == "chat-login"


def test_what_a_project_has_set_stays() -> None:
    own = {
        "VAR_DIR": "/data",
        "MEDIA_ROOT": "/media",
        "LOGIN_URL": "/door",
        "RAG": {"CHAT_MODEL": "openai:x", "PLUGINS": ["website.plugins"]},
        "REST_FRAMEWORK": {"PAGE_SIZE": 7},
        "PROCRASTINATE_WORKER_DEFAULTS": {"concurrency": 9},
        "INSTALLED_APPS": ["rest_framework", "unfold", "rag", "agents", "django.contrib.postgres"],
        "UNFOLD": {"SITE_TITLE": "Website", "STYLES": ["theirs"]},
    }
    named = host(**own)
    install_settings(named)
    install_settings(named)
    assert (named["VAR_DIR"], named["MEDIA_ROOT"], named["LOGIN_URL"]) == (
        Path("/data"),
        "/media",
        "/door",
    )
    assert named["RAG"]["CHAT_MODEL"] == "openai:x"
    assert named["RAG"]["PLUGINS"] == (*OUR_PLUGINS, "agents.tools", "website.plugins")
    assert named["REST_FRAMEWORK"]["PAGE_SIZE"] == 7
    assert named["PROCRASTINATE_WORKER_DEFAULTS"]["concurrency"] == 9
    assert sorted(named["INSTALLED_APPS"][-2:]) == ["agents", "rag"]
    assert len(named["INSTALLED_APPS"]) == len(set(named["INSTALLED_APPS"]))
    assert len(named["UNFOLD"]["STYLES"]) == 2 and len(named["MIDDLEWARE"]) == 2


def test_an_unknown_name_is_refused_by_it() -> None:
    with (
        override_settings(RAG={"CHAT_MODLE": "x"}),
        pytest.raises(ConfigurationError, match="settings.RAG has CHAT_MODLE"),
    ):
        conf()


def test_settings_that_nobody_completed_are_told_at_once(settings: Any) -> None:
    del settings.PROCRASTINATE_WORKER_DEFAULTS
    del settings.AGENTS
    with pytest.raises(ImproperlyConfigured) as told:
        apps.get_app_config("rag").import_models()
    assert "AGENTS, PROCRASTINATE_WORKER_DEFAULTS" in str(told.value)
    assert "install_settings(globals())" in str(told.value)


def found(**changed: Any) -> list[CheckMessage]:
    with override_settings(**changed):
        return check_host()


@pytest.mark.parametrize(
    ("changed", "number", "mend"),
    [
        ({"MIDDLEWARE": []}, "rag.W010", "install_settings"),
        ({"MEDIA_URL": "/media/"}, "rag.W011", "stores"),
        ({"ROOT_URLCONF": "tests.unit.project.no_addresses"}, "rag.W012", "rag.urls"),
        (
            {"STORAGES": {"default": {"BACKEND": "django.core.files.storage.InMemoryStorage"}}},
            "rag.E013",
            "FileSystemStorage",
        ),
        ({"AUTH_USER_MODEL": "rag.Store"}, "rag.E010", "PermissionsMixin"),
    ],
)
def test_each_lack_is_told_with_its_mend(changed: dict[str, Any], number: str, mend: str) -> None:
    (told,) = found(**changed)
    assert told.id == number and mend in str(told.hint)


def test_our_own_site_lacks_nothing() -> None:
    assert found() == []


def test_the_wheel_asks_for_what_a_checkout_installs() -> None:
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    pins = {
        name.lower(): version for name, version in re.findall(r"^([^\s#=]+)==(\S+)", text, re.M)
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [Requirement(one) for one in project["dependencies"]]
    names = {str(one).partition(str(one.specifier))[0].lower(): one for one in wanted}
    assert set(names) == {re.sub(r"\s", "", name) for name in pins}
    assert [n for n, one in names.items() if not one.specifier.contains(pins[n])] == []
