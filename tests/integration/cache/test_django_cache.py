"""Django's cache: a server for all processes with REDIS_URL, the process's own memory without."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.fakes.valkey_server import OwnValkey
from tests.forked_processes import run_python

PROBE = """
import json, os, signal, sys
from django.core.cache import cache
from django_redis import get_redis_connection
cache.set("greeting", {"a": "你好"}, 60)
client = get_redis_connection("default")
found = {
    "found": cache.get("greeting"), "ping": client.ping(),
    "keys": sorted(key.decode() for key in client.keys()),
    "wait": client.connection_pool.connection_kwargs["socket_timeout"],
}
os.kill(int(sys.argv[1]), signal.SIGKILL)
print(json.dumps(found | {"lost": cache.get("greeting", "gone"), "set": cache.set("a", 1)}))
"""
LOCAL = """
from django.core.cache import caches
caches["default"].set("a", 1, 60)
print(type(caches["default"]).__name__, caches["default"].get("a"))
"""


def told(code: str, tmp_path: Path, url: str, *words: str) -> str:
    settings = {"DJANGO_SETTINGS_MODULE": "project.settings", "REDIS_URL": url}
    environment = os.environ | settings | {"CITABLE_VAR": str(tmp_path)}
    done = run_python("-c", code, *words, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def test_with_redis_url_values_lie_in_the_server_and_its_loss_is_a_miss(tmp_path: Path) -> None:
    with OwnValkey() as server:
        found = json.loads(told(PROBE, tmp_path, server.url, str(server.pid)))
    assert found == {
        "found": {"a": "你好"},
        "ping": True,
        "keys": ["django:1:greeting"],
        "wait": 0.5,
        "lost": "gone",
        "set": None,
    }


def test_without_it_values_stay_in_the_process(tmp_path: Path) -> None:
    assert told(LOCAL, tmp_path, "") == "LocMemCache 1"
